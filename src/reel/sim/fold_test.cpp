#include "reel/sim/fold.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "reel/base/random.h"
#include "reel/sim/build.h"
#include "reel/sim/testing.h"
#include "reel/sim/timeline.h"

namespace reel::sim {
namespace {

// A small job drawn at random: every kind of cut, of memory saving, of overlap, stragglers and bad links.
Job random_job(const Random& random, std::uint64_t& at) {
  const auto draw = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random.below(at++, values.size())];
  };
  while (true) {
    Job job;
    Model& m = job.model;
    Parallel& p = job.parallel;
    const bool dit = draw({0, 0, 1}) == 1;
    m.layers = draw({2, 4, 8});
    m.heads = draw({4, 8});
    m.hidden = m.heads * 64;
    m.gated = draw({0, 1}) == 1;
    m.flash = draw({0, 1, 1}) == 1;
    p.tensor = draw({1, 1, 2, 4});
    p.sequence_parallel = draw({0, 1}) == 1;
    p.pipeline = draw({1, 1, 2, 4});
    p.interleave = p.pipeline == 1 ? 1 : draw({1, 2});
    p.data = draw({1, 2, 3, 4});
    p.zero = draw({0, 1, 3});
    if (dit) {
      m.kind = "dit";
      m.frames = 4, m.height = 8, m.width = 8;
      if (draw({0, 1}) == 1) m.attention = "spatial-temporal";
      const auto u = static_cast<int>(draw({1, 2})), r = static_cast<int>(draw({1, 2, 3}));
      p.plan = m.attention == "3d" ? layout::Degrees{.ulysses = u, .ring = r}
               : draw({0, 1}) == 1 ? layout::Degrees{.dsp = u}
                                   : layout::Degrees{.ulysses = u};
      if (m.attention == "3d" && draw({0, 1}) == 1) {
        for (std::int64_t i = 0; i < m.heads; ++i) m.head_sparsity.push_back(0.8 + 0.19 * random.uniform(at++));
        m.sparsity = {0.95};
        m.frames = 64;  // long enough that sparse attention pays
        m.height = m.width = 32;
      }
    } else {
      m.sequence = draw({512, 1024});
      m.vocab = 4000;
      m.kv_heads = draw({0, 4});
      p.context = draw({1, 1, 2, 3, 4});
      p.context_kind = draw({0, 1}) == 1 ? "ring" : "all_gather";
      m.experts = draw({0, 0, 4});
      p.expert = m.experts == 0 ? 1 : draw({1, 2});
    }
    job.micro_batch = draw({1, 2});
    job.global_batch = job.micro_batch * p.data * draw({1, 2, 4, 8, 12});
    job.recompute = draw({0, 1}) == 1 ? "full" : draw({0, 1}) == 1 ? "selective" : "none";
    job.overlap_gradients = draw({0, 1}) == 1;
    job.overlap_parameters = draw({0, 1}) == 1;
    job.overlap_tensor = draw({0, 1}) == 1;
    job.bucket = static_cast<double>(draw({1, 4, 160}));
    if (finish(job)) continue;
    const auto devices = static_cast<std::uint64_t>(job.devices());
    if (devices > 48) continue;
    if (draw({0, 0, 1}) == 1) {
      job.slow_ranks = {static_cast<std::int64_t>(random.below(at++, devices))};
      job.slow_rank_factors = {1.37};
    }
    if (draw({0, 0, 1}) == 1) {
      job.slow_links = {static_cast<std::int64_t>(random.below(at++, devices))};
      job.slow_link_factors = {2.5};
    }
    return job;
  }
}

TEST(Fold, FoldedEqualsUnfoldedOnTwoHundredRandomJobs) {
  const char* given = std::getenv("REEL_TEST_SEED");
  const std::uint64_t seed = given == nullptr ? 8 : std::strtoull(given, nullptr, 10);
  const cost::Cluster cluster = test_cluster();
  const Random random(seed);
  std::uint64_t at = 0;
  std::int64_t ranks = 0, classes = 0, tasks = 0, folded_tasks = 0;
  for (int i = 0; i < 200; ++i) {
    const Job job = random_job(random, at);
    const Built built = build(job, cluster);
    const Workload& w = built.workload;
    const Folding folding = fold(w);
    const Timeline folded = run(w, folding), plain = run(w, unfolded(w));
    ASSERT_EQ(folded.end, plain.end) << "seed " << seed << ", job " << i << ": " << describe(job);
    for (std::int32_t r = 0; r < w.ranks(); ++r) {
      const ClassTime& a = plain.classes[static_cast<std::size_t>(r)];
      const ClassTime& b = folded.classes[static_cast<std::size_t>(folding.class_of[static_cast<std::size_t>(r)])];
      ASSERT_EQ(a.end, b.end) << "seed " << seed << ", job " << i << ", rank " << r << ": " << describe(job);
      ASSERT_EQ(a.breakdown, b.breakdown)
          << "seed " << seed << ", job " << i << ", rank " << r << ": " << describe(job);
      ASSERT_EQ(a.lost, b.lost) << "seed " << seed << ", job " << i << ", rank " << r;
      Picoseconds sum = 0;
      for (const Picoseconds part : a.breakdown) sum += part;
      ASSERT_EQ(sum, a.end) << "seed " << seed << ", job " << i << ", rank " << r << ": " << describe(job);
    }
    ranks += w.ranks(), classes += folding.classes(), tasks += plain.tasks, folded_tasks += folded.tasks;
  }
  EXPECT_LT(classes * 2, ranks);  // it does fold
  EXPECT_LT(folded_tasks * 2, tasks);
}

TEST(Fold, AStragglerSplitsOnlyWhatItTouches) {
  Job job;
  job.model.hidden = 512, job.model.layers = 4, job.model.vocab = 1000;
  job.parallel.tensor = 2, job.parallel.pipeline = 2, job.parallel.data = 4;
  job.parallel.devices = 16;
  ASSERT_FALSE(finish(job));
  const cost::Cluster cluster = test_cluster();
  EXPECT_EQ(fold(build(job, cluster).workload).classes(), 2);
  job.slow_ranks = {5};
  job.slow_rank_factors = {2};
  const Built built = build(job, cluster);
  const Folding folding = fold(built.workload);
  // Per stage: the straggler (or its peer in the other stage), its tensor partner, and the data-parallel rows of the
  // two, which differ because their all-reduce groups do.
  EXPECT_EQ(folding.classes(), 8);
  EXPECT_EQ(folding.size[static_cast<std::size_t>(folding.class_of[5])], 1);
}

}  // namespace
}  // namespace reel::sim
