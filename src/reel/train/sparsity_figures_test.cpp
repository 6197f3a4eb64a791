#include "reel/train/sparsity_figures.h"

#include "reel/lists/controls.h"
#include "reel/train/run.h"
#include "reel/train/testing.h"

namespace reel::train {
namespace {

using testing::copy_of;
using testing::expect_same_bits;
using testing::Files;
using testing::small_run;
using testing::Trained;

// Clips of 4 x 4 x 4 tokens, groups of 8.
std::vector<std::string> sparse_settings(const std::string& mode) {
  return {"video.frames=4",           "video.height=16",    "video.width=16",         "model.layers=2",
          "sparsity.mode=" + mode,    "sparsity.keys=0.25", "sparsity.group=[2,2,2]", "sparsity.profile_every=1",
          "sparsity.break_even=0.99", "data.validation=1"};
}

TEST(SparsityFigures, TheDrawnKeysAreThoseOfTheLists) {
  const RunConfig c = small_run("wan", sparse_settings("window"));
  Trained run(c, 2);
  const auto source = data::make_source(c.data, format_of(c));
  const report::SparsitySummary s = sparsity_summary("nowhere", run.trainer, *source, step_need(c));
  EXPECT_EQ(s.mode, "window");
  ASSERT_EQ(s.group.heads.size(), 3u);
  EXPECT_EQ(s.group.group.size(), 8u);
  EXPECT_EQ(s.group.frames.size(), 4u);
  const lists::TokenOrder order = lists::tile_order({4, 4, 4}, {2, 2, 2});
  const lists::KeyLists lists = lists::window_lists(order, 1, 2, 0.25);
  const std::int64_t group = 7;  // the tile of token (3, 2, 2)
  EXPECT_EQ(s.group.group, std::vector<std::int32_t>(order.raster.begin() + 56, order.raster.end()));
  for (const auto& head : s.group.heads) {
    std::vector<std::int32_t> expected;
    for (const std::int32_t key : lists.list(0, head.head, group)) {
      expected.push_back(order.raster[static_cast<std::size_t>(key)]);
    }
    EXPECT_EQ(head.keys, expected);
    EXPECT_GT(head.covered, 0);
    EXPECT_LE(head.covered, 1 + 1e-6);
  }
  EXPECT_EQ(s.figures.tokens, 64);
  EXPECT_EQ(s.figures.layers.size(), 2u);
  EXPECT_NEAR(s.figures.critical_within.back(), 1, 1e-9);
  ASSERT_EQ(s.figures.lengths.size(), 4u);
  EXPECT_EQ(s.figures.lengths[3].tokens, 512);
  EXPECT_GT(s.figures.lengths[3].attention, 2 * s.figures.lengths[0].attention);
}

TEST(SparsityFigures, LookingChangesNothingThatTrainingDependsOn) {
  for (const char* mode : {"dynamic", "static", "random"}) {
    const RunConfig c = small_run("wan", sparse_settings(mode));
    const auto source = data::make_source(c.data, format_of(c));
    Trained plain(c, 5), looked(c, 3);
    sparsity_summary("nowhere", looked.trainer, *source, step_need(c));
    looked.step();
    looked.step();
    expect_same_bits(copy_of(plain.values()), copy_of(looked.values()));
  }
}

using SparsityFiguresOfARun = Files;

TEST_F(SparsityFiguresOfARun, AreOnItsPage) {
  const RunConfig c = small_run("wan", sparse_settings("dynamic"));
  testing::Process process(path("log"), [&] { return run(c, {.folder = path("run")}) ? 0 : 1; });
  ASSERT_EQ(process.wait(), 0) << read_file(path("log"));
  const std::string page = read_file(path("run/report.html"));
  for (const char* text : {"<h2>Sparsity</h2>", "Keys needed", "<h2>The keys of one group</h2>",
                           "Where critical keys lie", "32 frames, 512 tokens"}) {
    EXPECT_NE(page.find(text), page.npos) << text;
  }
}

}  // namespace
}  // namespace reel::train
