#include "reel/train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/comm/mpi.h"
#include "reel/files/file.h"
#include "reel/files/folder.h"
#include "reel/kernels/peak.h"
#include "reel/report/metrics.h"
#include "reel/report/run_page.h"
#include "reel/report/tensorboard.h"
#include "reel/train/page.h"

namespace reel::train {

namespace {

constexpr std::int64_t kMostSkipped = 5;

// As make_folder, with a hint that names the option.
void make_folder_of(const std::string& folder, const char* option) {
  try {
    make_folder(folder);
  } catch (const Error& error) {
    throw Error(error.what(), fmt::format("choose another {}", option));
  }
}

// What rank 0 measures and computes, on every rank: all of them have to decide the same.
sparsity::Controller::Options of_rank_0(comm::Comm& world, const RunConfig& config, const StepNeed& need,
                                        Threads& threads) {
  sparsity::Controller::Options options;
  if (world.rank() == 0) options = sparsity_options(config, need, threads);
  static_assert(std::is_trivially_copyable_v<sparsity::Controller::Options>);
  std::vector<std::int64_t> bytes(sized(world.size()), 0);
  bytes[0] = sizeof(options);
  world.all_gather_v(&options, &options, bytes);
  return options;
}

// `own` with the memory of the rank that needs most.
StepNeed with_most_memory(comm::Comm& world, const StepNeed& own) {
  static_assert(std::is_trivially_copyable_v<StepNeed>);
  std::vector<StepNeed> all(sized(world.size()));
  const std::vector<std::int64_t> bytes(all.size(), sizeof(StepNeed));
  world.all_gather_v(&own, all.data(), bytes);
  StepNeed need = *std::max_element(all.begin(), all.end(),
                                    [](const StepNeed& a, const StepNeed& b) { return a.bytes() < b.bytes(); });
  need.flops = own.flops, need.self_attention_flops = own.self_attention_flops;
  return need;
}

class Run {
 public:
  Run(const RunConfig& config, const RunOptions& options, Threads& threads, const StepNeed& need, parallel::Team& team,
      Listener& listener)
      : config_(config),
        folder_(options.folder),
        need_(need),
        team_(team),
        listener_(listener),
        root_(team.world().rank() == 0),
        trainer_(config, threads, of_rank_0(team.world(), config, need, threads), &team),
        source_(data::make_source(config.data, format_of(config), warns())),
        state_(options.resume ? load_checkpoint(folder_, trainer_).value_or(RunState{}) : RunState{}),
        loader_(*source_, {config.train.batch, static_cast<std::uint64_t>(config.train.seed), state_.data_position,
                           trainer_.first_clip(), trainer_.own_clips()}),
        dump_masks_(options.dump_masks),
        dump_every_(options.dump_every) {
    if (!root_) return;
    const std::int64_t first = state_.step > 0 ? state_.step : -1;
    metrics_.emplace(report::MetricsFile::open(folder_ + "/metrics.jsonl", first));
    make_folder(folder_ + "/tensorboard");
    events_.emplace(folder_ + "/tensorboard", first);
    peak_ = kernels::peak_flops(threads);
    write_file_atomically(folder_ + "/config.toml", config.text);
    if (trainer_.sparsity() != nullptr) {
      trainer_.sparsity()->on_fallback = [this](std::int64_t step, int layer) { fell_back(step, layer); };
      heads_.emplace(report::MetricsFile::open(folder_ + "/sparsity.jsonl", first));
    }
    if (!dump_masks_.empty()) make_folder_of(dump_masks_, "--dump-masks");
  }

  bool train() {
    const TrainConfig& t = config_.train;
    const Timer wall;
    const double before = state_.wall_seconds;
    if (root_) listener_.begun(state_.step);
    if (state_.step == 0 && t.validate_every > 0) validate();
    bool stop = all_stop();
    while (state_.step < t.steps && !stop) {
      one_step();
      state_.wall_seconds = before + wall.seconds();
      const bool last = state_.step == t.steps;
      if (due(t.validate_every) || (last && t.validate_every > 0)) validate();
      if ((due(t.sample_every) || last) && t.samples > 0) {
        write_samples(folder_, trainer_, *source_);
      }
      state_.wall_seconds = before + wall.seconds();
      if (due(t.checkpoint_every) || last) save();
      stop = all_stop();
    }
    if (stop) save();  // this may be before the first step
    const bool done = state_.step >= t.steps;
    if (root_) listener_.ended({.done = done, .step = state_.step, .steps = t.steps, .folder = folder_});
    return done;
  }

 private:
  // The ranks of a sequence group read the same clips: one of them says what is wrong with a clip.
  data::Warn warns() const {
    if (team_.sequence().rank() != 0) return {};
    return [this](const std::string& message) { listener_.notice(message); };
  }
  // Whether any rank was asked to stop: all of them have to stop after the same step.
  bool all_stop() {
    double stop = listener_.stop() ? 1 : 0;
    if (team_.world().size() > 1) team_.world().all_reduce({&stop, 1});
    return stop != 0;
  }
  bool due(std::int64_t every) const { return every > 0 && state_.step % every == 0; }

  void one_step() {
    const Timer timer;
    const bool dump = !dump_masks_.empty() && (state_.step + 1) % dump_every_ == 0;
    if (dump) dump_lists();
    const StepReport report = trainer_.step([&] { return loader_.next(); });
    const double seconds = timer.seconds();
    if (dump) trainer_.sparsity()->on_lists = nullptr;
    state_.step = trainer_.steps_done();
    state_.data_position = loader_.position();
    if (root_) tell(report, seconds);
    if (report.skipped) {
      skipped(report);
    } else {
      state_.skipped_in_row = 0;
    }
  }

  void tell(const StepReport& report, double seconds) {
    const double rate = static_cast<double>(need_.tokens) / seconds,
                 share = need_.flops_with(report.kept) / seconds / peak_;
    namespace metric = report::metric;
    note({{metric::kLoss, report.loss},
          {metric::kLearningRate, report.lr},
          {metric::kGradientNorm, report.gradient_norm},
          {metric::kTokensPerSecond, rate},
          {metric::kShareOfPeak, share}});
    if (trainer_.sparsity() != nullptr) note_sparsity(report);
    listener_.stepped({.step = state_.step,
                       .steps = config_.train.steps,
                       .report = report,
                       .seconds = seconds,
                       .tokens_per_second = rate,
                       .share_of_peak = share,
                       .validation = validation_,
                       .sparse = trainer_.sparsity() != nullptr});
  }

  void note_sparsity(const StepReport& report) {
    const sparsity::Controller& s = *trainer_.sparsity();
    note({{report::metric::kKeptKeys, report.kept},
          {report::metric::kSparseHeads, s.sparse_share()},
          {report::metric::kFallbacks, static_cast<double>(s.fallbacks())}});
    if (s.config().mode != "dynamic" || !s.profiles_at(state_.step - 1)) return;
    std::vector<std::string> names;
    std::vector<double> values;
    for (int layer = 0; layer < static_cast<int>(s.shape().layers); ++layer) {
      for (std::int64_t h = 0; h < s.shape().heads; ++h) {
        const sparsity::Head& head = s.head(layer, h);
        for (const sparsity::HeadField& field : sparsity::kHeadFields) {
          if (!field.shown) continue;
          names.push_back(fmt::format("{}.{}.{}", field.name, layer, h));
          values.push_back(static_cast<double>(head.*field.value));
        }
      }
    }
    std::vector<report::Metric> row;
    for (std::size_t i = 0; i < names.size(); ++i) row.push_back({names[i], values[i]});
    heads_->write(state_.step, row);
  }

  // The listener gets the first one; all are counted (note_sparsity).
  void fell_back(std::int64_t step, int layer) {
    if (std::exchange(told_fallback_, true)) return;
    listener_.notice(fmt::format(
        "after step {}: predicted scores of layer {} are not finite; it is dense for this pass", step, layer));
  }

  void dump_lists() {
    trainer_.sparsity()->on_lists = [this, done = std::set<int>()](int layer,
                                                                   const lists::OrderedLists& lists) mutable {
      if (!root_ || !done.insert(layer).second) return;  // of accumulated passes the first
      lists::save(lists, fmt::format("{}/step-{:06}.layer-{}.safetensors", dump_masks_, state_.step + 1, layer));
    };
  }

  void note(std::initializer_list<report::Metric> values) {
    metrics_->write(state_.step, values);
    for (const report::Metric& each : values) {
      events_->scalar(each.name, state_.step, each.value, static_cast<double>(std::time(nullptr)));
    }
  }

  void skipped(const StepReport& report) {
    ++state_.skipped;
    ++state_.skipped_in_row;
    if (root_) listener_.skipped({state_.step, report.loss, report.gradient_norm, state_.skipped_in_row});
    if (state_.skipped_in_row < kMostSkipped) return;
    const std::string latest = latest_checkpoint(folder_);
    throw Error(
        fmt::format("step {}: {} steps in a row with a loss or gradients that are not finite", state_.step,
                    state_.skipped_in_row),
        fmt::format("the weights are those of before; {}\nlower train.lr (now {}), lengthen train.warmup, or look for "
                    "broken clips in the data",
                    latest.empty() ? "no checkpoint was written yet" : "the last checkpoint is " + latest,
                    config_.optim.lr));
  }

  void validate() {
    validation_ = trainer_.validate(*source_);
    if (root_ && !std::isnan(validation_)) note({{report::metric::kValidationLoss, validation_}});
  }

  void save() {
    save_checkpoint(folder_, trainer_, state_, config_.train.keep);
    if (root_) write_page(folder_, trainer_, *source_, state_, need_);
  }

  const RunConfig& config_;
  std::string folder_;
  StepNeed need_;
  parallel::Team& team_;
  Listener& listener_;
  const bool root_;  // writes, and tells the listener
  Trainer trainer_;
  std::unique_ptr<data::Source> source_;
  RunState state_;
  data::Loader loader_;
  std::optional<report::MetricsFile> metrics_;
  std::optional<report::EventFile> events_;
  std::string dump_masks_;
  std::int64_t dump_every_;
  std::optional<report::MetricsFile> heads_;
  bool told_fallback_ = false;
  double peak_ = 0;
  double validation_ = std::nan("");
};

}  // namespace

bool run(const RunConfig& config, const RunOptions& options) {
  if (!options.dump_masks.empty() && !config.sparsity.on()) {
    throw Error("there are no lists to write: sparsity.mode is off", "add --set sparsity.mode=dynamic");
  }
  const auto alone = comm::make_self();
  comm::Comm& world = options.world != nullptr ? *options.world : *alone;
  world.shared().limit = config.parallel.wait_seconds;
  parallel::Team team(world, config.parallel.plan);
  const StepNeed need = with_most_memory(world, step_need(config, world.rank(), world.size()));
  const bool root = world.rank() == 0;
  Listener silent;
  Listener& listener = options.listener != nullptr ? *options.listener : silent;
  std::optional<FileLock> lock;
  if (root) {
    const double available = available_memory() / launched().on_host;
    listener.started({.config = config,
                      .need = need,
                      .available = available,
                      .ranks = world.size(),
                      .ranks_of_clip = team.sequence().size(),
                      .plan = team.plan().text()});
    check_memory(config, need, available, world.size());
    make_folder_of(options.folder, "--out");
    lock = FileLock::take(options.folder + "/.lock");
    if (!lock) {
      throw Error(fmt::format("{}: another process trains there", options.folder),
                  "wait for it, or choose another --out");
    }
  }
  world.barrier();
  const std::string latest = latest_checkpoint(options.folder);
  if (!options.resume && !latest.empty()) {
    throw Error(fmt::format("{}: this folder already holds a run", options.folder),
                "use --resume to continue it, or choose another --out");
  }
  world.barrier();  // nobody writes before everybody has looked
  RunConfig present = config;
  if (!latest.empty()) present.train.start_from.clear();  // what it began with may be gone by now
  Threads threads(config.train.threads > 0 ? static_cast<int>(config.train.threads) : default_threads());
  comm::poll_while_computing(threads, world);
  return Run(present, options, threads, need, team, listener).train();
}

}  // namespace reel::train
