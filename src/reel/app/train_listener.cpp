#include "reel/app/train_listener.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "reel/app/app.h"

namespace reel::app {

namespace {

volatile std::sig_atomic_t stop_signal = 0;

}  // namespace

TrainListener::TrainListener() {
  stop_signal = 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { stop_signal = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

TrainListener::~TrainListener() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

bool TrainListener::stop() { return stop_signal != 0; }

void TrainListener::started(const train::Started& run) {
  if (run.ranks > 1) {
    fmt::print("{} ranks: {} for each clip{}, {} data-parallel\n", run.ranks, run.ranks_of_clip,
               run.plan.empty() ? "" : " (" + run.plan + ")", run.ranks / run.ranks_of_clip);
  }
  const model::ModelConfig& m = run.config.model;
  fmt::print("{}: {} layers, width {}, {} tokens a step, {:.1f} GFLOP{} ({:.0f} % self-attention)\n", m.family,
             m.layers, m.width(), run.need.tokens, run.need.flops / 1e9, run.ranks > 1 ? " a rank" : "",
             100 * run.need.self_attention_share());
  fmt::print("{}\n", train::memory_line(run.need, run.available, run.ranks));
  std::fflush(stdout);
  steps_ = run.config.train.steps;
}

void TrainListener::begun(std::int64_t step) {
  if (step > 0) fmt::print("resumed at step {}\n", step);
  std::fflush(stdout);
  const std::lock_guard lock(mutex_);
  bar_.emplace("train", steps_, Progress::Options{.first = step});
}

void TrainListener::stepped(const train::Stepped& s) {
  const std::string suffix =
      fmt::format("loss {:.4f}{}  lr {:.1e}  norm {:.2f}  {:.0f} tokens/s  {:.0f} % of peak{}", s.report.loss,
                  std::isnan(s.validation) ? "" : fmt::format(" (validation {:.4f})", s.validation), s.report.lr,
                  s.report.gradient_norm, s.tokens_per_second, 100 * s.share_of_peak,
                  s.sparse ? fmt::format("  {:.0f} % of keys", 100 * s.report.kept) : "");
  {
    const std::lock_guard lock(mutex_);
    bar_->update(s.step, suffix);
  }
  if (::isatty(STDERR_FILENO) != 0) return;  // the bar is there
  if (log_.seconds() <= 10 && s.step != 1 && s.step != s.steps) return;
  const double left = static_cast<double>(s.steps - s.step) * s.seconds;
  fmt::print("step {}/{}  {}  left {}\n", s.step, s.steps, suffix, format_duration(left));
  std::fflush(stdout);
  log_ = Timer();
}

void TrainListener::skipped(const train::Skipped& s) {
  notice(fmt::format("step {}: loss {}, gradient norm {}: not finite, the step is skipped ({} in a row)", s.step,
                     s.loss, s.gradient_norm, s.in_row));
}

void TrainListener::notice(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (bar_) bar_->erase();
  warn(message);
}

void TrainListener::ended(const train::Ended& run) {
  const std::lock_guard lock(mutex_);
  bar_->finish();
  fmt::print("{} at step {} of {}: {}/latest, {}/report.html\n", run.done ? "done" : "stopped", run.step, run.steps,
             run.folder, run.folder);
}

}  // namespace reel::app
