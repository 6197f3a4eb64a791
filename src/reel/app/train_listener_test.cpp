#include "reel/app/train_listener.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/train/testing.h"

namespace reel::app {
namespace {

using train::testing::Process;

class Listening : public train::testing::Files {};

TEST_F(Listening, PrintsTheStoryOfARun) {
  const train::RunConfig config = train::testing::small_run("wan");
  Process process(path("log"), [&] {
    TrainListener listener;
    const train::StepNeed need{
        .weights = 2e6, .activations = 3e6, .flops = 4e9, .self_attention_flops = 1e9, .tokens = 16};
    listener.started({config, need, 7e9, 4, 2, "ulysses=2"});
    listener.begun(2);
    listener.stepped({.step = 3, .steps = 6, .report = {.loss = 0.5}, .seconds = 1});  // no line: it is neither end
    listener.skipped({.step = 3, .loss = HUGE_VAL, .gradient_norm = 1, .in_row = 2});
    listener.stepped({.step = 6,
                      .steps = 6,
                      .report = {.loss = 0.25, .gradient_norm = 1.5, .lr = 0.001, .kept = 0.1},
                      .seconds = 1,
                      .tokens_per_second = 16,
                      .share_of_peak = 0.5,
                      .validation = 0.75,
                      .sparse = true});
    listener.notice("skipping a clip: it is broken");
    listener.ended({true, 6, 6, "runs/a"});
    return listener.stop() ? 1 : 0;
  });
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(read_file(path("log")),
            "4 ranks: 2 for each clip (ulysses=2), 2 data-parallel\n"
            "wan: 1 layers, width 16, 16 tokens a step, 4.0 GFLOP a rank (25 % self-attention)\n"
            "memory of a rank: 5 MB = weights 2 MB + gradients 0 MB + optimizer 0 MB + activations 3 MB; 7.0 GB "
            "available\n"
            "resumed at step 2\n"
            "reel: step 3: loss inf, gradient norm 1: not finite, the step is skipped (2 in a row)\n"
            "step 6/6  loss 0.2500 (validation 0.7500)  lr 1.0e-03  norm 1.50  16 tokens/s  50 % of peak  10 % of "
            "keys  left 0:00\n"
            "reel: skipping a clip: it is broken\n"
            "done at step 6 of 6: runs/a/latest, runs/a/report.html\n");
}

// Whoever is in a hurry presses Ctrl-C twice.
TEST_F(Listening, TheFirstSignalIsNotedAndTheSecondEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process(path("log"), [&] {
      TrainListener listener;
      if (listener.stop()) return 1;
      ::raise(signal);
      if (!listener.stop()) return 2;
      ::raise(signal);
      return 3;
    });
    EXPECT_EQ(process.wait(), -signal);
  }
}

TEST_F(Listening, AfterItSignalsAreAsBefore) {
  Process process(path("log"), [] {
    { const TrainListener listener; }
    ::raise(SIGTERM);
    return 1;
  });
  EXPECT_EQ(process.wait(), -SIGTERM);
}

}  // namespace
}  // namespace reel::app
