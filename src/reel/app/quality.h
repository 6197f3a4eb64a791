// What reel bench quality finds: models trained from the same seeds that differ in the keys their attention looks at.
//
// An arm is a way to choose keys: "dense" (all of them), or a sparsity.mode. Runs of one seed share initial weights,
// clips and noise, so arms are compared seed by seed and only the differences are averaged. "twin" is dense again with
// a learning rate 0.1 % higher: how far it ends from dense is chance, and what is closer to dense than that proves
// nothing.
//
// The share of the gain that an arm loses is (L - L_dense) / (L_own - L_dense): 0 as good as dense, 1 as bad as the own
// tile alone, below 0 better than dense. L_own and L_dense are the losses of those arms in their own mode.
//
// With the models of the first seed some held-out clips are restored (train/restore.h), all from the same noise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/cost/machine.h"
#include "reel/data/clip.h"

namespace reel::app {

// A held-out clip, and what a model made of it when it was noised. Pictures are PNG, frames side by side.
struct RestoredPictures {
  std::int64_t clip = 0;
  std::vector<std::string> given;  // frames that were not noised; the strips hold the others
  std::string truth, noised, restored;
  double psnr_noised = 0, psnr = 0;  // dB
};

struct QualityRun {
  struct Point {
    std::int64_t step = 0;
    double loss = 0;    // validation, attention as trained
    double kept = 1;    // share of keys, mean of the training steps since the point before
    double sparse = 0;  // share of heads
  };
  std::string arm;
  std::int64_t seed = 0;
  std::vector<Point> curve;
  double loss = 0, loss_dense = 0;         // at the end: attention as trained, attention over all keys
  double kept = 1;                         // share of keys, mean of the second half of the training steps
  double break_even = 0;                   // share of keys above which heads stayed dense; 0: all were
  std::int64_t sparse_from = -1;           // first step in which half of the heads were sparse; -1: never
  std::int64_t skipped = 0;                // steps that were not finite
  std::vector<RestoredPictures> restored;  // first seed only; the same clips in every arm
  double seconds = 0;
};

struct Quality {
  std::string model, configuration;               // the run file: its name, its text
  std::int64_t steps = 0, tokens = 0, clips = 0;  // optimizer steps; tokens of a clip; held-out clips
  double keys = 0;                                // share that arms may look at; 0: dynamic as heads need
  double restore_level = 0;                       // flow time to which clips were noised; 0: none were
  data::Format format;                            // of the clips
  double fps = 8;
  std::vector<std::string> arms;  // the first is dense
  std::vector<std::int64_t> seeds;
  std::vector<QualityRun> runs;  // all arms of a seed, then the next

  cost::Machine machine;

  const QualityRun* run(const std::string& arm, std::int64_t seed) const;  // null: there is none
};

struct Spread {  // over seeds; NaN where nothing is known
  double mean, low, high;
};

struct ArmSummary {
  std::string arm;
  Spread loss, loss_dense, over_dense;  // over_dense: loss / L_dense - 1
  Spread lost, lost_dense;              // share of the gain, of either loss; NaN without the arm own
  Spread kept, sparse_from;             // sparse_from: NaN where a seed never got there
  double psnr = 0;                      // of restored clips, mean, dB; NaN: none
};

std::vector<ArmSummary> summarise(const Quality& quality);

// What the runs show, in sentences; the first one is about the data where that is too easy to tell arms apart.
std::vector<std::string> findings(const Quality& quality);
// Whether attention beyond the own tile gains something, and no control gets it as cheaply as dynamic does. True where
// the arms that could tell were not run.
bool needs_dynamic(const Quality& quality);

// How many keys arms may look at, in words.
std::string budget_of(const Quality& quality);

// The summary as cells: a row an arm, for the terminal and for the page.
std::vector<std::string> quality_columns();
std::vector<std::vector<std::string>> quality_rows(const Quality& quality);

std::string quality_json(const Quality& quality);
void write_quality_page(const Quality& quality, const std::string& path);

}  // namespace reel::app
