// The page of reel bench quality.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "reel/app/quality.h"
#include "reel/base/sized.h"
#include "reel/report/animation.h"
#include "reel/report/chart.h"
#include "reel/report/page.h"

namespace reel::app {

namespace {

using report::LineChart;
using report::Series;
using Pick = double (*)(const QualityRun::Point&);

// One line an arm: the mean of these seeds. Runs of a page have the same steps in their curves.
std::vector<Series> lines(const Quality& quality, const std::vector<std::int64_t>& seeds, Pick pick) {
  std::vector<Series> out;
  for (const std::string& arm : quality.arms) {
    Series series;
    series.name = arm;
    for (const std::int64_t seed : seeds) {
      const QualityRun& run = *quality.run(arm, seed);
      series.x.resize(run.curve.size());
      series.y.resize(run.curve.size());
      for (std::size_t i = 0; i < run.curve.size(); ++i) {
        series.x[i] = static_cast<double>(run.curve[i].step);
        series.y[i] += pick(run.curve[i]) / static_cast<double>(seeds.size());
      }
    }
    out.push_back(std::move(series));
  }
  return out;
}

LineChart loss_chart(const Quality& quality, const std::vector<std::int64_t>& seeds) {
  LineChart chart;
  chart.series = lines(quality, seeds, [](const QualityRun::Point& p) { return p.loss; });
  chart.log_y = std::all_of(chart.series.begin(), chart.series.end(), [](const Series& s) {
    return std::all_of(s.y.begin(), s.y.end(), [](double y) { return y > 0; });
  });
  return chart;
}

report::Html lost_chart(const std::vector<ArmSummary>& arms) {
  report::BarChart chart;
  chart.title = "Share of the gain that is lost";
  chart.note = "mean of the seeds; better than dense is drawn as 0";
  chart.unit = report::Unit::kShare;
  for (const ArmSummary& each : arms) {
    if (each.arm == "dense" || each.arm == "twin") continue;
    chart.bars.push_back({each.arm, std::max(0.0, each.lost.mean), each.arm == "dynamic"});
    chart.bars.push_back({each.arm + ", evaluated dense", std::max(0.0, each.lost_dense.mean), each.arm == "dynamic"});
  }
  return report::bar_chart(chart);
}

// Two rows a clip: what is given, and what was made of the rest, arm by arm.
report::Html restored_clips(const Quality& quality) {
  const std::int64_t seed = quality.seeds.front();
  const std::vector<RestoredPictures>& first = quality.run("dense", seed)->restored;
  const auto clip = [&](std::string png, std::size_t frames, std::string caption) {
    return report::ClipStrip{.png = std::move(png),
                             .frames = static_cast<int>(frames),
                             .width = static_cast<int>(quality.format.width),
                             .height = static_cast<int>(quality.format.height),
                             .fps = quality.fps,
                             .caption = std::move(caption)};
  };
  std::vector<report::ClipRow> rows;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const RestoredPictures& one = first[i];
    const std::size_t frames = sized(quality.format.frames) - one.given.size();
    report::ClipRow given{fmt::format("clip {}", one.clip + 1), {}}, made{"", {}};
    for (const std::string& png : one.given) given.clips.push_back(clip(png, 1, "given"));
    if (!given.clips.empty()) rows.push_back(given);
    if (given.clips.empty()) made.label = given.label;
    made.clips.push_back(clip(one.truth, frames, "truth"));
    made.clips.push_back(clip(one.noised, frames, fmt::format("noised, {:.1f} dB", one.psnr_noised)));
    for (const std::string& arm : quality.arms) {
      const std::vector<RestoredPictures>& by = quality.run(arm, seed)->restored;
      if (by.empty()) continue;  // its loss is not finite
      made.clips.push_back(clip(by[i].restored, frames, fmt::format("{}, {:.1f} dB", arm, by[i].psnr)));
    }
    rows.push_back(made);
  }
  return report::clip_rows(rows);
}

std::string about_restored(const Quality& quality) {
  const std::size_t given = quality.run("dense", quality.seeds.front())->restored.front().given.size();
  return fmt::format(
      "Held-out clips, and the models of the first seed. {} noise is mixed, up to flow time {:.2f} and the same for "
      "every model, and each model takes it out again in one step, looking at the keys of its own choice. What those "
      "keys do not tell stays noise. dB is the peak signal-to-noise ratio of the noised frames: 6 more is half the "
      "error. Pointing at the clips stops them.",
      given > 0 ? fmt::format("The first {} frames are given; into the others", given) : "Into all frames",
      quality.restore_level);
}

constexpr const char* kHowToRead =
    "All runs of a seed begin with the same weights and see the same clips with the same noise for the same number of "
    "steps, those included in which the dynamic arm is still dense. They differ in the keys that self-attention looks "
    "at: all (dense), those that are found in every pass (dynamic), the own tile of a query alone (own), random ones, "
    "the nearest (window), or those that were heavy in earlier clips (static). Every sparse arm keeps its own tile, "
    "which is part of its budget. Twin, where it was run, is dense with a learning rate 0.1 % higher: as far as it "
    "ends "
    "from dense, other arms may by chance.\n\n"
    "The gain is what attention beyond the own tile brings: L(own) - L(dense). An arm loses (L - L(dense)) / gain of "
    "it; below 0 it ended better than dense. \"Evaluated dense\" is the same model looking at all keys: it tells "
    "whether the weights suffered or only the look-up.\n\n"
    "With a fixed budget sparsity.break_even is 1: a head turns sparse as soon as its keys are predicted well, whether "
    "or not that is faster on this machine. This page is about quality; reel bench train is about speed.\n\n"
    "Numbers in brackets are the lowest and the highest of the seeds, no confidence interval. A loss near dense proves "
    "something only where the controls fail on the same data.";

}  // namespace

void write_quality_page(const Quality& quality, const std::string& path) {
  const std::vector<ArmSummary> arms = summarise(quality);
  report::Page page("Quality of sparse training",
                    fmt::format("{}: {} tokens, {} steps, {} seed{}, {}", quality.model, quality.tokens, quality.steps,
                                quality.seeds.size(), quality.seeds.size() == 1 ? "" : "s", budget_of(quality)));
  std::vector<std::string> said = findings(quality), notices;
  if (!needs_dynamic(quality)) {
    notices.push_back(said.front());
    said.erase(said.begin());
  }
  for (const QualityRun& each : quality.runs) {
    if (each.skipped > 0)
      notices.push_back(
          fmt::format("{}, seed {}: {} steps were not finite and skipped", each.arm, each.seed, each.skipped));
  }
  page.notices(notices);
  for (std::string& sentence : said) sentence[0] = static_cast<char>(std::toupper(sentence[0]));
  page.section("What it shows", fmt::format("{}.", fmt::join(said, ".\n\n")));
  if (!quality.run("dense", quality.seeds.front())->restored.empty()) {
    page.section("Noised and restored", about_restored(quality));
    page.figure(restored_clips(quality));
  }
  page.section("Numbers");
  page.table({quality_columns(), quality_rows(quality)});
  if (!std::isnan(arms.front().lost.mean)) page.figure(lost_chart(arms));
  const char* of_seeds = quality.seeds.size() > 1 ? ", mean of the seeds" : "";
  LineChart mean = loss_chart(quality, quality.seeds);
  mean.title = fmt::format("Validation loss, attention as trained{}", of_seeds);
  mean.height = 300;
  page.figure(report::line_chart(mean));
  LineChart kept;
  kept.title = fmt::format("Keys that training looked at{}", of_seeds);
  kept.y_unit = report::Unit::kShare;
  kept.from_zero = true;
  kept.series = lines(quality, quality.seeds, [](const QualityRun::Point& p) { return p.kept; });
  page.figure(report::line_chart(kept));
  page.section("How to read it", kHowToRead);
  if (quality.seeds.size() > 1) {
    page.section("Each seed");
    std::vector<report::Html> figures;
    for (const std::int64_t seed : quality.seeds) {
      LineChart one = loss_chart(quality, {seed});
      one.title = fmt::format("Validation loss, seed {}", seed);
      figures.push_back(report::line_chart(one));
    }
    page.figures(figures);
  }
  page.folded("Run file", quality.configuration);
  page.write(path);
}

}  // namespace reel::app
