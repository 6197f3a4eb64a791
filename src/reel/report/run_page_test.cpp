#include "reel/report/run_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/report/testing.h"

namespace reel::report {
namespace {

RunSummary run_of(std::int64_t steps) {
  RunSummary run;
  run.title = "bouncing shapes";
  run.subtitle = "latte, 12.3M parameters";
  run.planned_steps = 2000;
  run.wall_seconds = 3723;
  run.model = {{"family", "latte"}};
  run.machine = {{"cores", "2"}};
  run.configuration = "[train]\nsteps = 2000  # <many>\n";
  run.peak_memory = 3.0 * (1 << 30);
  run.memory = {{"weights", 1.0 * (1 << 30)}, {"activations", 1.5 * (1 << 30)}};
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto s = static_cast<double>(step);
    MetricRow row{step, {}};
    row.values = {{metric::kLoss, 0.1 + 2 / s},        {metric::kLearningRate, 3e-4},
                  {metric::kGradientNorm, 1 + 20 / s}, {metric::kTokensPerSecond, 4000 + 10 * std::sin(s)},
                  {metric::kShareOfPeak, 0.7},         {"ema_decay", 0.999}};
    if (step % 10 == 0) row.values[metric::kValidationLoss] = 0.2 + 2 / s;
    run.rows.push_back(row);
  }
  return run;
}

Sample sample_at(std::int64_t step, bool real = false) {
  return {step, real, {.png = "x", .frames = 4, .width = 16, .height = 16, .caption = "disc"}};
}

// The page, after the checks that hold for every run.
std::string checked(const RunSummary& run) {
  const std::string page = run_page(run);
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_TRUE(holds_only_finite_numbers(page.substr(page.find("</style>"))));
  EXPECT_EQ(page, run_page(run)) << "not the same bytes";
  return page;
}

TEST(RunPage, ShowsWhatARunMeasured) {
  RunSummary run = run_of(300);
  run.samples = {sample_at(300), sample_at(0), sample_at(0, true)};
  run.warnings = {"the disk is nearly full"};
  run.skipped_steps = 3;
  const std::string page = checked(run);
  for (const char* text : {"<h1>bouncing shapes</h1>",
                           "steps of 2,000",
                           ">300<",
                           "1:02:03",
                           "Loss",
                           "validation",
                           "Tokens per second",
                           "Share of the measured peak",
                           "Gradient norm",
                           "Learning rate",
                           "ema_decay",
                           "<h2>Samples</h2>",
                           "step 300",
                           "<h3>Real</h3>",
                           "weights 1\u00a0GiB",
                           "other 512\u00a0MiB",
                           "<h3>Machine</h3>",
                           "# &lt;many&gt;",
                           "the disk is nearly full",
                           "3 steps were skipped because their gradients were not finite."}) {
    EXPECT_TRUE(has(page, text)) << text;
  }
}

TEST(RunPage, LeavesOutWhatARunDidNotMeasure) {
  RunSummary run;
  run.title = "empty";
  const std::string page = checked(run);
  EXPECT_TRUE(has(page, "No step has been recorded yet."));
  for (const char* text :
       {"Samples", "Memory", "Setting", "<details", "class=\"headline\"", "class=\"notices\"", "<svg"}) {
    EXPECT_FALSE(has(page.substr(page.find("</style>")), text)) << text;
  }
}

TEST(RunPage, OneStepIsARun) {
  const std::string page = checked(run_of(1));
  EXPECT_TRUE(has(page, "step 1 · training 2.1<"));
  EXPECT_FALSE(has(page, "validation"));
}

TEST(RunPage, ALossThatIsNotANumberIsSaid) {
  RunSummary run = run_of(100);
  for (std::size_t i = 60; i < 100; ++i) run.rows[i].values[metric::kLoss] = NAN;
  run.rows[50].values[metric::kGradientNorm] = INFINITY;
  EXPECT_TRUE(has(checked(run), "The loss is not a finite number in 40 of 100 steps."));
  for (MetricRow& row : run.rows) {
    for (auto& [name, value] : row.values) value = NAN;
  }
  EXPECT_TRUE(has(checked(run), "no finite value"));
}

TEST(RunPage, TheHeadlineSaysTheLossThatTheChartEndsWith) {
  const std::string page = checked(run_of(1500));
  const std::string shown = all_between(page, "<dt>loss</dt><dd>", "</dd>").at(0);
  EXPECT_EQ(all_between(page, "<text class=\"last c0\"", "</text>").at(0).ends_with(">" + shown), true) << shown;
}

TEST(RunPage, AHundredThousandStepsMakeASmallPage) { EXPECT_LT(run_page(run_of(100000)).size(), 300000u); }

TEST(RunPage, ManySamplesBecomeEightRowsFromFirstToLast) {
  RunSummary run = run_of(10);
  for (int i = 50; i >= 0; --i) run.samples.push_back(sample_at(i * 10));
  const std::string page = checked(run);
  EXPECT_EQ(count_of(page, "<img"), 8u);
  EXPECT_TRUE(has(page, "<span>step 0</span>"));
  EXPECT_TRUE(has(page, "<span>step 500</span>"));
  EXPECT_TRUE(has(page, "8 of the 51 times"));
}

}  // namespace
}  // namespace reel::report
