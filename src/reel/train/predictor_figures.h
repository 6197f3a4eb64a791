// How well predictors of each kind and rank find the keys of a trained model, layer by layer and head by head. They
// learn from training clips while the model stays as it is, and are judged on held-out clips; attention is as in
// training, noise and times are those of validation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reel/predict/found_keys.h"
#include "reel/train/trained_run.h"

namespace reel::train {

struct PredictorFigures {
  std::string kind;                         // qk or hidden (sparsity/predictor.h)
  std::int64_t rank = 0;                    // 0: qk, head by head from its spectrum
  std::vector<predict::FoundKeys> heads;    // [layers][heads]
  predict::FoundKeys mean;                  // over them
  std::vector<std::int64_t> ranks_of_head;  // as used
};

struct PredictorTable {
  double size = 0.1;                    // of the keys
  std::int64_t learnt = 0, judged = 0;  // clips
  std::int64_t tokens = 0, groups = 0;  // of a clip, and looked at of each head of a clip
  std::vector<PredictorFigures> predictors;
};

// `run` has a controller, for the order of tokens at least, and stays as it is. An Error where no clip is held out.
// `progress` gets the number of passes done and of all.
PredictorTable study_predictors(const TrainedRun& run, Threads& threads,
                                const std::function<void(std::int64_t done, std::int64_t of)>& progress = {});

}  // namespace reel::train
