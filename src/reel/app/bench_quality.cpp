// reel bench quality: the same model trained with every choice of keys, from the same seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reel/app/app.h"
#include "reel/app/bench.h"
#include "reel/app/quality.h"
#include "reel/base/error.h"
#include "reel/base/progress.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/data/png.h"
#include "reel/files/file.h"
#include "reel/files/nearest.h"
#include "reel/files/shipped.h"
#include "reel/kernels/peak.h"
#include "reel/train/restore.h"
#include "reel/train/trainer.h"

namespace reel::app {

namespace {

constexpr std::int64_t kRestored = 4;  // clips: as many as fit on a screen of the page
constexpr double kTwinRate = 1.001;    // of the learning rate: changes every step a little and nothing that matters

void check_arms(const std::vector<std::string>& arms) {
  const std::vector<std::string> known = {"dense", "twin", "dynamic", "own", "random", "window", "static"};
  for (const std::string& arm : arms) {
    if (std::find(known.begin(), known.end(), arm) == known.end())
      throw Error(fmt::format("--arms: '{}' is not known", arm), nearest_hint(arm, known, "arms"));
    if (std::count(arms.begin(), arms.end(), arm) > 1)
      throw Error(fmt::format("--arms: {} is there twice", arm), "name every arm once");
  }
  if (arms.size() < 2 || arms.front() != "dense")
    throw Error("--arms: the first must be dense, with which the others are compared", "as --arms dense,dynamic,own");
}

train::RunConfig configuration(const BenchOptions& options, const std::string& arm, std::int64_t seed) {
  std::vector<std::string> set = options.set;
  for (const char* key : {"train.seed", "model.seed", "data.seed"}) set.push_back(fmt::format("{}={}", key, seed));
  if (options.train_steps > 0) set.push_back(fmt::format("train.steps={}", options.train_steps));
  set.push_back(fmt::format("sparsity.mode={}", arm == "dense" || arm == "twin" ? "off" : arm));
  set.push_back(fmt::format("sparsity.keys={}", options.keys));
  // Quality, not speed: a fixed budget is used as soon as the keys are found.
  if (options.keys > 0) set.push_back("sparsity.break_even=1");
  train::RunConfig config = train::load_run(options.model, set);
  if (arm == "twin") config.optim.lr *= kTwinRate;
  return config;
}

std::unique_ptr<data::Source> source_of(const train::RunConfig& c) {
  return data::make_source(c.data, train::format_of(c), warn);
}

// What a training step kept.
struct Kept {
  double keys = 1, heads = 0;
};

Kept kept_by(train::Trainer& trainer, const train::StepReport& report) {
  const sparsity::Controller* controller = trainer.sparsity();
  if (controller == nullptr) return {};
  // Controls decide nothing: all of their heads are sparse, or none.
  if (controller->config().mode != "dynamic") return {report.kept, report.kept < 1 ? 1.0 : 0.0};
  return {report.kept, controller->sparse_share()};
}

std::vector<RestoredPictures> restored_by(train::Trainer& trainer, data::Source& source, double level) {
  const auto given = sized(trainer.config().diffusion.conditioning_frames);
  const auto frames = [&](std::span<const float> values) { return data::images_of(values, source.format()); };
  const auto strip = [&](std::span<const float> values) {
    std::vector<data::Image> images = frames(values);
    images.erase(images.begin(), images.begin() + static_cast<std::ptrdiff_t>(given));
    return data::png_bytes(data::contact_sheet({images}, 1, 0));
  };
  std::vector<RestoredPictures> out;
  for (const train::RestoredClip& each : train::restore_held_out(trainer, source, level, kRestored)) {
    out.push_back({.clip = each.number,
                   .truth = strip(each.truth.values),
                   .noised = strip(each.noised),
                   .restored = strip(each.restored),
                   .psnr_noised = each.psnr_noised,
                   .psnr = each.psnr});
    const std::vector<data::Image> images = frames(each.truth.values);
    for (std::size_t i = 0; i < given; ++i) out.back().given.push_back(data::png_bytes(images[i]));
  }
  return out;
}

// restore_level: of held-out clips to restore; 0: none.
QualityRun train_arm(const train::RunConfig& config, const std::string& arm, double restore_level, Threads& threads,
                     Progress& progress, std::int64_t steps_before) {
  const Timer timer;
  const train::TrainConfig& t = config.train;
  QualityRun run{.arm = arm, .seed = t.seed};
  train::Trainer trainer(config, threads, train::sparsity_options(config, train::step_need(config), threads));
  const std::unique_ptr<data::Source> source = source_of(config);
  data::Loader loader(*source, {t.batch, static_cast<std::uint64_t>(t.seed), 0});
  run.curve.push_back({0, trainer.validate(*source)});
  if (const sparsity::Controller* controller = trainer.sparsity(); controller != nullptr) {
    run.break_even = static_cast<double>(controller->break_even().share);
  }
  double since_point = 0, second_half = 0;
  std::int64_t at_point = 0;
  for (std::int64_t step = 1; step <= t.steps; ++step) {
    const train::StepReport report = trainer.step([&] { return loader.next(); });
    run.skipped += report.skipped ? 1 : 0;
    const Kept kept = kept_by(trainer, report);
    since_point += kept.keys;
    if (step > t.steps / 2) second_half += kept.keys;
    if (run.sparse_from < 0 && kept.heads >= 0.5) run.sparse_from = step;
    if (step == t.steps || (t.validate_every > 0 && step % t.validate_every == 0)) {
      run.curve.push_back(
          {step, trainer.validate(*source), since_point / static_cast<double>(step - at_point), kept.heads});
      since_point = 0;
      at_point = step;
    }
    progress.update(steps_before + step, fmt::format("seed {} {}: loss {:.4f} (validation {:.4f})  {:.0f} % of keys",
                                                     t.seed, arm, report.loss, run.curve.back().loss, 100 * kept.keys));
  }
  run.loss = run.curve.back().loss;
  run.loss_dense = trainer.validate(*source, train::Trainer::Attention::kDense);
  const std::int64_t counted = t.steps - t.steps / 2;
  run.kept = second_half / static_cast<double>(counted);
  run.seconds = timer.seconds();
  if (restore_level > 0 && std::isfinite(run.loss)) run.restored = restored_by(trainer, *source, restore_level);
  return run;
}

void print_table(const Quality& quality) {
  const std::vector<std::string> columns = quality_columns();
  std::vector<std::vector<std::string>> rows = quality_rows(quality);
  rows.insert(rows.begin(), columns);
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const std::vector<std::string>& each : rows) width = std::max(width, each[i].size());
      line += fmt::format("{:{}}  ", row[i], width);
    }
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

}  // namespace

void bench_quality(const BenchOptions& given) {
  BenchOptions options = given;
  if (options.model.empty()) options.model = shipped_file("configs", "storyboard-b.toml");
  check_arms(options.arms);
  const train::RunConfig first = configuration(options, "dynamic", 0);
  const train::StepNeed need = train::step_need(first);
  const double available = train::available_memory();
  fmt::print("{}\n", train::memory_line(need, available));
  train::check_memory(first, need, available);
  Quality quality{.model = options.model,
                  .configuration = first.text,
                  .steps = first.train.steps,
                  .tokens = need.tokens / (first.train.batch * first.train.accumulate),
                  .clips = source_of(first)->size(data::Split::kValidation),
                  .keys = options.keys,
                  .format = source_of(first)->format(),
                  .fps = first.video.fps,
                  .arms = options.arms};
  if (train::kind_of(first) == diffusion::Kind::kFlow) quality.restore_level = train::restore_level(first.diffusion);
  if (quality.clips == 0) {
    throw Error(fmt::format("{}: no clips are held out to compare with", options.model), "--set data.validation=16");
  }
  for (std::int64_t seed = 0; seed < options.seeds; ++seed) quality.seeds.push_back(seed);
  const auto runs = static_cast<std::int64_t>(options.arms.size()) * options.seeds;
  fmt::print("quality: {}, {} tokens, {} runs of {} steps; {}\n\n", quality.model, quality.tokens, runs, quality.steps,
             budget_of(quality));
  std::fflush(stdout);
  Threads threads(options.threads);
  quality.machine = machine_of_peak(threads, kernels::peak_flops(threads));
  Progress progress("quality", runs * quality.steps);
  std::int64_t done = 0;
  for (const std::int64_t seed : quality.seeds) {
    for (const std::string& arm : options.arms) {
      quality.runs.push_back(train_arm(configuration(options, arm, seed), arm, seed == 0 ? quality.restore_level : 0,
                                       threads, progress, done++ * quality.steps));
      const QualityRun& run = quality.runs.back();
      progress.erase();
      fmt::print("seed {}  {:8} loss {:.4f}  evaluated dense {:.4f}  {:5.1f} % of keys  {}\n", seed, arm, run.loss,
                 run.loss_dense, 100 * run.kept, format_seconds(run.seconds));
      std::fflush(stdout);
      // After every run: hours of work are not lost with the last one.
      if (!options.json.empty()) write_file_atomically(options.json, quality_json(quality));
    }
  }
  progress.finish();
  fmt::print("\n{}\n",
             options.seeds == 1 ? "one seed" : fmt::format("mean (lowest to highest of {} seeds)", options.seeds));
  print_table(quality);
  fmt::print("\n{}\n", fmt::join(findings(quality), "\n"));
  if (!options.report.empty()) write_quality_page(quality, options.report);
}

}  // namespace reel::app
