#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reel/app/app.h"
#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/comm/mpi.h"
#include "reel/kernels/cpu.h"

namespace reel::app {

namespace {

void print_error(const std::string& what, const std::string& hint) {
  std::fflush(stdout);
  const Launched launched = reel::launched();
  const std::string rank =
      launched.ranks > 1 ? fmt::format("rank {} of {}: ", launched.rank, launched.ranks) : std::string();
  fmt::print(stderr, "reel: {}{}\n", rank, what);
  for (std::size_t at = 0; at < hint.size();) {
    const std::size_t end = std::min(hint.find('\n', at), hint.size());
    fmt::print(stderr, "      {}\n", hint.substr(at, end - at));
    at = end + 1;
  }
}

// Ends all ranks. A mistake that all of them make at the same time is told by rank 0 alone: the others give it time to
// end them.
int fail(int status, const std::string& what, const std::string& hint) {
  if (reel::launched().rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  print_error(what, hint);
  comm::abort_all(status);
  return status;
}

// What was printed has arrived, unless the disk behind it is full.
int printed() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  throw std::runtime_error("not all output could be printed");
}

}  // namespace

void warn(const std::string& message) { fmt::print(stderr, "reel: {}\n", message); }

int run(int argc, const char* const* argv) try {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) throw Error("no verb given", "see 'reel help'");
  CommandLine line("trains and runs video diffusion transformers with dynamically sparse attention",
                   "reel " REEL_VERSION);
  Action action;
  add_doctor(line.verbs(), action);
  add_bench(line.verbs(), action);
  add_plan(line.verbs(), action);
  add_train(line.verbs(), action);
  add_sample(line.verbs(), action);
  add_denoise(line.verbs(), action);
  add_inspect(line.verbs(), action);
  add_simulate(line.verbs(), action);
  add_study(line.verbs(), action);
  add_export(line.verbs(), action);
  line.verbs().add_subcommand("help",
                              "explains a verb: reel help bench attention; reel help config: the keys of a run file");
  if (words[0] == "help") {
    const bool config = words.size() > 1 && words[1] == "config";
    fmt::print(
        "{}", config ? describe_config(words.size() > 2 ? words[2] : "") : line.help({words.begin() + 1, words.end()}));
    return printed();
  }
  try {
    if (!line.parse(argc, argv)) return printed();
  } catch (const Error&) {
    if (reel::launched().rank > 0) return 2;  // rank 0 says it for all
    throw;
  }
  kernels::choose_target_once();
  action();
  return printed();
} catch (const Error& error) {
  return fail(2, error.what(), error.hint());
} catch (const std::exception& error) {
  return fail(1, fmt::format("the work failed: {}", error.what()), "");
}

}  // namespace reel::app
