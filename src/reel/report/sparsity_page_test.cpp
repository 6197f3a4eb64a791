#include "reel/report/sparsity_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "reel/report/run_page.h"
#include "reel/report/sparsity_page_map.h"
#include "reel/report/testing.h"

namespace reel::report {
namespace {

// A run of `layers` x `heads` heads, all of which go sparse after half of the profiles.
SparsitySummary summary_of(int layers, int heads, int profiles) {
  SparsitySummary s;
  s.mode = "dynamic";
  s.attention_share = 0.5;
  for (int i = 0; i < profiles; ++i) {
    MetricRow row{1 + 5 * i, {}};
    for (int layer = 0; layer < layers; ++layer) {
      for (int head = 0; head < heads; ++head) {
        const auto add = [&](const char* name, double value) {
          row.values[fmt::format("{}.{}.{}", name, layer, head)] = value;
        };
        add("sparse", 2 * i >= profiles ? 1 : 0);
        add("query_sparsity", 0.9);
        add("overlap", 0.6);
        add("needed", 0.25);
        add("needed_predicted", 0.3125);
        add("covered", 0.875);
        add("quality", 0.96);
        add("recall", 0.75);
        add("rank", 24);
        add("samples", 16);
      }
    }
    s.heads.push_back(row);
  }
  return s;
}

std::vector<MetricRow> metrics_of(int steps, double kept) {
  std::vector<MetricRow> rows;
  for (int step = 1; step <= steps; ++step) {
    rows.push_back(
        {step,
         {{metric::kLoss, 1.0}, {metric::kKeptKeys, kept}, {metric::kSparseHeads, 0.75}, {metric::kFallbacks, 0}}});
  }
  return rows;
}

// Two frames of 2 x 4 tokens.
GroupKeys group_of() {
  GroupKeys g;
  g.width = 32, g.height = 16;
  g.grid = {2, 2, 4};
  g.frames = {{0, "first"}, {1, "second"}};
  g.group = {10, 11, 14, 15};  // of frame 1: the right half
  g.heads = {{3, 1, {0, 1, 2, 7, 15}, 0.875}};
  return g;
}

AttentionFigures figures_of(int layers) {
  AttentionFigures f;
  f.tokens = 1000, f.queries = 256, f.noise = 0.25;
  for (int i = 0; i < layers; ++i) {
    f.layers.push_back({std::vector<double>(40, 1.0 / 40), 0.625, {0.5, 0.75, 1}, {0.1, 0.2, 1}});
  }
  f.kept = {0.05, 0.1, 0.2, 0.5}, f.curve = {0.01, 0.1, 1};
  f.error_critical = {0.4, 0.3, 0.2, 0.1};
  f.error_random = {0.9, 0.8, 0.7, 0.6};
  f.critical_within = {0.1, 0.2, 0.3, 0.4, 0.45, 0.48, 1};
  f.all_within = {0, 0.01, 0.02, 0.03, 0.04, 0.05, 1};
  f.lengths = {{8, 1024, 0.5}, {16, 2048, 0.625}};
  return f;
}

std::string checked(const SparsitySummary& summary, const std::vector<MetricRow>& rows) {
  RunSummary run;
  run.title = "sparse";
  run.rows = rows;
  run.sparsity = summary;
  const std::string page = run_page(run);
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_TRUE(holds_only_finite_numbers(page.substr(page.find("</style>"))));
  EXPECT_EQ(page, run_page(run)) << "not the same bytes";
  return page;
}

TEST(SparsityPage, SaysWhatWasKeptAndWhatThatSaved) {
  const std::string page = checked(summary_of(2, 2, 4), metrics_of(20, 0.25));
  for (const char* text :
       {"<h2>Sparsity</h2>", "Keys kept and heads sparse", "Sparse heads of each layer", "Keys needed", "Mass covered",
        "Quality of the choice", "layer 1, head 0, step 16: 25\u00a0%",
        "<dt>attention arithmetic left out over the run</dt><dd>75\u00a0%</dd>",
        "<dt>of all arithmetic of the model</dt><dd>37.5\u00a0%</dd>"}) {
    EXPECT_TRUE(has(page, text)) << text;
  }
  EXPECT_FALSE(has(page, metric::kKeptKeys)) << "drawn twice";
  EXPECT_FALSE(has(page, "class=\"notices\""));
}

TEST(SparsityPage, ARunWithoutSparsityHasNoneOfIt) {
  RunSummary run;
  run.title = "dense";
  run.rows = {{1, {{metric::kLoss, 1.0}}}};
  EXPECT_FALSE(has(run_page(run), "parsity"));
}

TEST(SparsityPage, TheTableHasARowAHeadOrForManyHeadsALayer) {
  const std::string few = checked(summary_of(3, 4, 2), metrics_of(5, 0.5));
  EXPECT_EQ(count_of(few, "<td class=\"number\">31.2\u00a0%</td>"), 12u);
  EXPECT_EQ(count_of(few, "<td>sparse</td>"), 12u);
  const std::string many = checked(summary_of(20, 10, 2), metrics_of(5, 0.5));
  EXPECT_EQ(count_of(many, "<td class=\"number\">31.2\u00a0%</td>"), 20u);
  EXPECT_TRUE(has(many, "A row is a layer"));
}

TEST(SparsityPage, AHeadNobodyLookedAtHasNoNumbers) {
  SparsitySummary s = summary_of(1, 2, 2);
  for (MetricRow& row : s.heads) {
    for (auto& [name, value] : row.values) {
      if (name.ends_with(".1")) value = name == "needed.0.1" ? 1 : 0;
    }
  }
  const std::string page = checked(s, metrics_of(5, 0.5));
  EXPECT_TRUE(has(page, "layer 0, head 0, step 6: 25\u00a0%"));
  EXPECT_TRUE(has(page, "layer 0, head 1, step 6: –"));
  EXPECT_TRUE(has(page, "<td>dense</td>"));
}

TEST(SparsityPage, FallbacksOfAResumedRunAddUp) {
  std::vector<MetricRow> rows = metrics_of(6, 0.5);
  const double counts[] = {0, 2, 2, 0, 1, 1};  // a new process after the third step
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].values[metric::kFallbacks] = counts[i];
  EXPECT_TRUE(has(checked(summary_of(1, 1, 1), rows), "not finite 3 times"));
}

TEST(SparsityPage, KeysAreMarkedInTheirFrames) {
  SparsitySummary s = summary_of(1, 1, 1);
  s.group = group_of();
  const std::string page = checked(s, metrics_of(5, 0.5));
  EXPECT_TRUE(has(page, "Layer 3, head 1"));
  EXPECT_TRUE(has(page, "5 of 16 keys (31.2\u00a0%), which carry 87.5\u00a0% of the group's attention"));
  EXPECT_TRUE(has(page, "d=\"M0 0h3v1h-3zM3 1h1v1h-1z\"")) << "keys of frame 0";
  EXPECT_TRUE(has(page, "d=\"M3 1h1v1h-1z\"")) << "the key of frame 1";
  EXPECT_EQ(count_of(page, "d=\"M2 0H4V2H2z\""), 2u) << "the group, in frame 1 only";
  EXPECT_EQ(count_of(page, "data:image/png"), 2u);
  s.group.heads.clear();
  EXPECT_TRUE(has(checked(s, metrics_of(5, 0.5)), "No head is sparse in this step"));
}

TEST(SparsityPage, FiguresSayWhatTheyShow) {
  SparsitySummary s = summary_of(1, 1, 1);
  s.figures = figures_of(40);
  const std::string page = checked(s, metrics_of(5, 0.5));
  for (const char* text : {"How sparse is this attention", "noised to t = 0.25", "10^-3.0",
                           "Within 5 tokens: 48\u00a0% of the critical keys, 5\u00a0% of all.", "random keys",
                           "Mass of the heaviest keys", "16 frames, 2,048 tokens", "layer 13"}) {
    EXPECT_TRUE(has(page, text)) << text;
  }
}

TEST(SparsityPage, MissingPartsAndNumbersLeaveAPage) {
  EXPECT_TRUE(has(checked({}, {}), "No step has been recorded yet."));
  SparsitySummary window;
  window.mode = "window";
  const std::string page = checked(window, metrics_of(3, 0.1));
  EXPECT_FALSE(has(page, "heads that are sparse"));
  for (const char* section : {"The keys of one group", "How sparse is this attention", "<table>"}) {
    EXPECT_FALSE(has(page, section)) << section;
  }
  SparsitySummary broken = summary_of(2, 2, 3);
  for (MetricRow& row : broken.heads) {
    for (auto& [name, value] : row.values) value = NAN;
  }
  broken.figures = figures_of(2);
  broken.figures.noise = NAN;
  for (auto& layer : broken.figures.layers) layer = {std::vector<double>(40, NAN), NAN, {NAN, NAN, NAN}, {NAN}};
  broken.figures.error_critical = broken.figures.error_random = {NAN, NAN, NAN, NAN};
  broken.figures.critical_within = broken.figures.all_within = std::vector<double>(7, NAN);
  checked(broken, metrics_of(3, NAN));
  checked(broken, metrics_of(3, 0.5));
}

TEST(HeadMap, ColorsReachToTheEndOfTheScale) {
  const auto colors = [](double value, double most) {
    return all_between(head_map({"needed", "", {1}, 1, 1, {value}, most}).markup, "<path fill=\"", "\"").at(0);
  };
  EXPECT_EQ(colors(0.2, 0.2), colors(1, 1));
  EXPECT_EQ(colors(0.05, 0.2), colors(0.25, 1));
  EXPECT_NE(colors(0.05, 0.2), colors(0.05, 1));
  EXPECT_NE(head_map({"needed", "", {1}, 1, 1, {0.1}, 0.2}).markup.find("<span>20"), std::string::npos);
}

TEST(HeadMap, ManyCellsMakeASmallPicture) {
  HeadMap map{"needed", "", {}, 32, 4, {}};
  for (int i = 0; i < 64; ++i) map.steps.push_back(i);
  for (int i = 0; i < 32 * 4 * 64; ++i) map.values.push_back(std::fabs(std::sin(i)));
  const std::string markup = head_map(map).markup;
  EXPECT_EQ(markup_fault(markup), "");
  EXPECT_LT(markup.size(), 200000u);
}

}  // namespace
}  // namespace reel::report
