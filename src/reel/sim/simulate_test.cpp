#include "reel/sim/simulate.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "reel/base/testing.h"
#include "reel/base/timer.h"
#include "reel/files/file.h"
#include "reel/sim/layers.h"
#include "reel/sim/search.h"
#include "reel/sim/table.h"
#include "reel/sim/testing.h"
#include "reel/sim/trace_file.h"

namespace reel::sim {
namespace {

Job gpt(const std::string& more = "") {
  return read_job(Toml::parse("model.hidden = 1024\nmodel.layers = 8\nmodel.vocab = 32000\n" + more, "job.toml"));
}

TEST(Simulate, TheBreakdownIsTheStep) {
  for (const char* more :
       {"", "parallel.data = 4\n", "parallel.pipeline = 4\nparallel.tensor = 2\n", "parallel.context = 2\n",
        "parallel.zero = 3\nparallel.data = 8\n", "model.experts = 8\nparallel.expert = 4\nparallel.data = 4\n"}) {
    const Result r = simulate(gpt(more), test_cluster());
    Picoseconds sum = 0;
    for (const Picoseconds part : r.breakdown) sum += part;
    EXPECT_NEAR(seconds(sum), r.step_seconds, 1e-11) << more;
    EXPECT_GT(r.breakdown_seconds(Category::kCompute), 0);
    EXPECT_GT(r.model_flops_utilisation, 0.01) << more;
    EXPECT_LT(r.model_flops_utilisation, 0.9) << more;
  }
}

// Each cut shows up in its own part of the breakdown, and nowhere when it is not there.
TEST(Simulate, EachKindOfCutCostsItsOwnKindOfTime) {
  const auto part = [](const char* more, Category category) {
    return simulate(gpt(more), test_cluster()).breakdown_seconds(category);
  };
  for (const Category c : {Category::kTensor, Category::kContext, Category::kExpert, Category::kPipeline,
                           Category::kData, Category::kBubble})
    EXPECT_EQ(part("", c), 0) << category_name(c);
  EXPECT_GT(part("parallel.tensor = 4\n", Category::kTensor), 0);
  EXPECT_GT(part("parallel.context = 4\nparallel.context_kind = \"all_gather\"\n", Category::kContext), 0);
  EXPECT_GT(part("model.experts = 8\nparallel.expert = 4\nparallel.data = 4\n", Category::kExpert), 0);
  EXPECT_GT(part("parallel.pipeline = 4\n", Category::kBubble), 0);
  EXPECT_GT(part("parallel.pipeline = 4\n", Category::kPipeline), 0);
  EXPECT_GT(part("parallel.data = 4\n", Category::kData), 0);
  EXPECT_GT(part("", Category::kOptimizer), 0);
}

TEST(Simulate, SavingsSave) {
  const auto run = [](const std::string& more) {
    return simulate(gpt("parallel.data = 8\nbatch.global = 64\n" + more), test_cluster());
  };
  const Result plain = run("");
  EXPECT_LT(run("parallel.zero = 1\n").memory.optimizer, plain.memory.optimizer / 7);
  EXPECT_LT(run("parallel.zero = 3\n").memory.weights, plain.memory.weights / 7);
  EXPECT_LT(run("memory.recompute = \"full\"\n").memory.activations, plain.memory.activations * 0.6);
  EXPECT_GT(run("memory.recompute = \"full\"\n").step_seconds, plain.step_seconds * 1.15);
  EXPECT_LT(run("overlap.gradients = true\n").step_seconds, plain.step_seconds);
  EXPECT_LT(run("memory.precision = \"fp8\"\n").step_seconds, plain.step_seconds);
}

TEST(Simulate, InterleavingShrinksTheBubble) {
  const std::string base = "parallel.pipeline = 4\nbatch.global = 8\n";
  const Result plain = simulate(gpt(base), test_cluster()),
               chunks = simulate(gpt(base + "parallel.interleave = 2\n"), test_cluster());
  EXPECT_LT(chunks.breakdown_seconds(Category::kBubble), plain.breakdown_seconds(Category::kBubble));
}

// 34 bytes a token and unit of width with sequence parallelism, divided by tensor ranks (Korthikanti et al. 2022), and
// the log-sum-exp of flash attention; plain 1F1B holds as many micro-batches as there are stages.
TEST(Simulate, ActivationsFollowThePublishedFormula) {
  const Job job = read_job(Toml::parse(
      "model.hidden = 12288\nmodel.layers = 96\nmodel.heads = 96\nmodel.sequence = "
      "2048\nparallel.tensor = 8\nparallel.sequence_parallel = true\nparallel.pipeline = 8\nbatch.global = 64\n",
      "job.toml"));
  const Built built = build(job, test_cluster());
  const double layer = 2048.0 * 12288 * 34 / 8 + 4.0 * 2048 * 12;
  double kept = 0;
  for (const Block& block : built.workload.programs[1].blocks) kept = std::max(kept, block.keeps);
  EXPECT_NEAR(kept, 12 * layer, 1);
  EXPECT_GT(built.memory[0].activations, 8 * 12 * layer);
  EXPECT_LT(built.memory[0].activations, 8.3 * 12 * layer);
  EXPECT_LT(built.memory[7].activations, 2 * 12 * layer);
}

TEST(Simulate, ParametersAndOperationsAreThePublishedOnes) {
  const Job job = read_job(
      Toml::parse("model.hidden = 12288\nmodel.layers = 96\nmodel.heads = 96\nbatch.global = 1536\n", "job.toml"));
  EXPECT_NEAR(model_parameters(job), 174.6e9, 0.1e9);
  // 72 B s l h^2 (1 + s/6h + V/12lh), the formula of Narayanan et al. 2021 without recompute
  const double b = 1536, s = 2048, l = 96, h = 12288, v = 51200;
  EXPECT_NEAR(model_flops(job) / (72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))), 1, 1e-12);
}

TEST(Simulate, AJobThatDoesNotFitIsTimedAndToldWhatHelps) {
  Options options;
  options.advise = true;
  const Result r =
      simulate(read_job(Toml::parse("model.hidden = 8192\nmodel.layers = 40\nparallel.data = 8\n", "job.toml")),
               test_cluster(), options);
  EXPECT_FALSE(r.fits);
  EXPECT_GT(r.step_seconds, 0);
  EXPECT_FALSE(r.advice.empty());
}

TEST(Simulate, SparseHeadsMakeRanksUnequalAndTheStepShorter) {
  const std::string base =
      "model.kind = \"dit\"\nmodel.hidden = 2048\nmodel.layers = 2\nmodel.heads = 16\nmodel.frames = 32\nmodel.height "
      "= 64\n"
      "model.width = 64\nparallel.plan = \"ulysses=4\"\n";
  const auto run = [&](const std::string& more) {
    return simulate(read_job(Toml::parse(base + more, "job.toml")), test_cluster());
  };
  const Result dense = run(""), sparse = run("model.sparsity = [0.98]\n");
  EXPECT_LT(sparse.step_seconds, dense.step_seconds);
  std::string list = "model.sparsity = [0.98]\nmodel.head_sparsity = [";
  for (int i = 0; i < 16; ++i) list += i < 4 ? "0.9," : "0.99,";
  const Result uneven = run(list + "]\n");
  EXPECT_EQ(dense.classes, 1);
  EXPECT_EQ(uneven.classes, 4);
  EXPECT_EQ(uneven.critical_rank, 0);
  EXPECT_GT(run("model.sparsity = [0.98]\n").step_seconds,
            run("model.sparsity = [0.98]\nmodel.selection = false\n").step_seconds);
}

// 28 pairs of blocks on 8 ranks: DSP moves half of what Ulysses does.
TEST(Simulate, DspMovesHalfOfUlysses) {
  const Job dsp = load_job(REEL_SOURCE_DIR "/jobs/open-sora-dsp-h800.toml", {"memory.recompute=none"});
  const Job ulysses =
      load_job(REEL_SOURCE_DIR "/jobs/open-sora-dsp-h800.toml", {"memory.recompute=none", "parallel.plan=ulysses=8"});
  const auto sent = [](const Job& job) {
    double bytes = 0;
    const Built built = build(job, test_cluster("h800"));
    for (const Block& block : built.workload.programs[0].blocks) {
      for (const Task& task : block.tasks) {
        if (task.category == Category::kContext)
          bytes += built.workload.calls[static_cast<std::size_t>(task.call)].bytes;
      }
    }
    return bytes;
  };
  EXPECT_NEAR(sent(dsp) / sent(ulysses), 0.5, 1e-9);
}

TEST(Search, FindsOnlyLegalCutsTheFastestFirst) {
  Job job;
  job.model.hidden = 1024, job.model.layers = 8, job.model.vocab = 32000;
  job.global_batch = 32;
  const SearchResult found = search(job, test_cluster(), 8, 5, {}, [](std::int64_t, std::int64_t) {});
  ASSERT_EQ(found.best.size(), 5u);
  EXPECT_GT(found.legal, 100);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(found.best[i].job.devices(), 8);
    EXPECT_TRUE(found.best[i].result.fits);
    if (i > 0) {
      EXPECT_GE(found.best[i].result.step_seconds, found.best[i - 1].result.step_seconds);
    }
  }
  job.global_batch = 1;
  job.model.layers = 7;
  job.model.heads = 1;
  EXPECT_NE(message_of([&] { candidates(job, 6); }).find("no legal way"), std::string::npos);
}

TEST(Simulate, OnlyWhatWasComparedHasAnErrorBand) {
  const Job dense = gpt(), experts = gpt("model.experts = 8\n");
  const Result h100 = simulate(dense, test_cluster()), h800 = simulate(dense, test_cluster("h800"));
  EXPECT_GT(h100.error_band.value(), 0);
  EXPECT_GT(simulate(experts, test_cluster()).error_band.value(), h100.error_band.value());
  EXPECT_FALSE(h800.error_band.has_value());
  EXPECT_GE(h800.error_guess, h100.error_band.value());
  const Job tiny = read_job(Toml::parse("model.hidden = 128\nmodel.layers = 2\nmodel.sequence = 64\n", "job.toml"));
  EXPECT_FALSE(simulate(tiny, test_cluster()).error_band.has_value());  // the host is the limit
  const Job video = load_job(REEL_SOURCE_DIR "/jobs/open-sora-dsp-h800.toml");
  EXPECT_FALSE(simulate(video, test_cluster()).error_band.has_value());
}

// More tasks in a block than 16 bits can count.
TEST(Simulate, ThousandsOfLayersOnOneRank) {
  const Job job = read_job(Toml::parse("model.hidden = 128\nmodel.layers = 4000\nmodel.sequence = 128\n", "job.toml"));
  const Job half = read_job(Toml::parse("model.hidden = 128\nmodel.layers = 2000\nmodel.sequence = 128\n", "job.toml"));
  EXPECT_NEAR(simulate(job, test_cluster()).step_seconds / simulate(half, test_cluster()).step_seconds, 2, 0.01);
}

TEST(Simulate, StepsThatNoClockCanCountAreRefused) {
  const auto refusal = [](const std::string& text) {
    return message_of([&] { simulate(read_job(Toml::parse(text, "job.toml")), test_cluster()); });
  };
  EXPECT_NE(refusal("model.hidden = 16777216\nmodel.layers = 65536\n").find("would take"), std::string::npos);
  EXPECT_NE(refusal("model.hidden = 8192\nmodel.layers = 1000\nbatch.global = 2000000\n").find("days"),
            std::string::npos);
}

class Table : public testing::Test {
 protected:
  std::string simulate(const std::string& text) {
    write_file_atomically(path_, text);
    return simulate_table(path_, test_cluster(), {}, [](std::size_t, std::size_t) {});
  }
  std::string error(const std::string& text) {
    return message_of([&] { simulate(text); });
  }
  ~Table() override { std::remove(path_.c_str()); }
  std::string path_ = testing::TempDir() + "reel_jobs.csv";
};

TEST_F(Table, RowsKeepTheirOrderAndColumns) {
  const std::string out =
      simulate("model.hidden,model.layers,parallel.tensor,note\n1024,8,1,a\n1024,8,2,\"b, c\"\n2048,8,,d\n");
  const Csv csv = Csv::parse(out, "out.csv");
  ASSERT_EQ(csv.rows(), 3u);
  EXPECT_EQ(csv.text(1, "note"), "b, c");
  EXPECT_EQ(csv.text(2, "parallel.tensor"), "");
  const Result direct = reel::sim::simulate(
      read_job(Toml::parse("model.hidden = 1024\nmodel.layers = 8\nparallel.tensor = 2\n", "x")), test_cluster());
  EXPECT_EQ(csv.number(1, "step_seconds"), direct.step_seconds);
  EXPECT_EQ(csv.text(1, "fits"), "true");
  for (const char* name : {"tokens_per_second_per_device", "model_flops_utilisation", "memory_gib_peak",
                           "breakdown_tensor", "breakdown_bubble", "simulate_seconds"})
    EXPECT_TRUE(csv.has(name)) << name;
}

TEST_F(Table, HasPricesWhereAskedForAndAnEmptyCellForWhatIsNotKnown) {
  write_file_atomically(path_, "model.hidden,model.layers\n1024,8\n");
  Options options;
  options.per_device_hour = 3.6, options.steps = 1000;
  const std::string out = simulate_table(path_, test_cluster("h800"), options, [](std::size_t, std::size_t) {});
  const Csv csv = Csv::parse(out, "out.csv");
  EXPECT_NEAR(csv.number(0, "price_step"), 1e-3 * csv.number(0, "step_seconds"), 1e-12);
  EXPECT_NEAR(csv.number(0, "price_run"), csv.number(0, "step_seconds"), 1e-9);
  EXPECT_EQ(csv.text(0, "error_band"), "");
  EXPECT_GT(csv.number(0, "error_band_guess"), 0);
  EXPECT_EQ(simulate("model.hidden,model.layers\n1024,8\n").find("price"), std::string::npos);
}

TEST_F(Table, MistakesNameFileLineAndKey) {
  EXPECT_NE(error("model.hiden,model.layers\n1,2\n")
                .find("reel_jobs.csv:1:1: unknown key 'model.hiden' | did you mean 'model.hidden'?"),
            std::string::npos);
  EXPECT_NE(error("model.hidden\n1024\n").find("reel_jobs.csv:1: there is no column 'model.layers'"),
            std::string::npos);
  EXPECT_NE(error("hidden,model.layers\n1024,2\n").find("did you mean 'model.hidden'?"), std::string::npos);
  EXPECT_NE(error("model.hidden,model.layers\n1024,2\n1024,-2\n").find("reel_jobs.csv:3:2: model.layers"),
            std::string::npos)
      << error("model.hidden,model.layers\n1024,2\n1024,-2\n");
  EXPECT_NE(error("model.hidden,model.layers,parallel.pipeline\n1024,2,3\n")
                .find("reel_jobs.csv:2:3: model.layers = 2 is not a multiple"),
            std::string::npos);
  EXPECT_NE(error("model.hidden,model.layers,step_seconds\n1024,2,3\n").find("is a result"), std::string::npos);
}

TEST(TraceFile, HasARankOfEachKindAndAllItsTasks) {
  const std::string path = testing::TempDir() + "reel_trace_test.json";
  const Job job = gpt("parallel.pipeline = 2\nparallel.tensor = 2\nbatch.global = 2\n");
  write_trace(job, test_cluster(), {}, {}, path);
  const auto json = nlohmann::json::parse(read_file(path));
  double end = 0;
  int slices = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_GT(slices, 500);
  EXPECT_NEAR(end * 1e-6, simulate(job, test_cluster()).step_seconds, 1e-9);
  EXPECT_NE(message_of([&] { write_trace(job, test_cluster(), {}, {4}, path); }).find("no rank 4"), std::string::npos);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace reel::sim
