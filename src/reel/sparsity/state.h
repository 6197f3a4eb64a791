// What a controller has learnt in a run, and what checkpoints keep of it: a run that is resumed decides as it would
// have decided without the pause.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "reel/predict/predictor.h"
#include "reel/sparsity/break_even.h"
#include "reel/sparsity/config.h"

namespace reel::sparsity {

// What is known about a head; shares are of all keys. f32, as checkpoints keep it.
struct Head {
  float query_sparsity = 0, overlap = 0;
  float needed = 1;            // best list for the mass
  float needed_predicted = 1;  // the predictor's list for the mass, with `samples` scored queries and the own tile
  float needed_tiles = 1;      // the same in whole tiles of 64 keys
  float covered = 0;           // mass of the predictor's list
  float quality = 0;           // that over the mass of the best list of its size that holds the own tile
  float recall = 0;
  float rank = 0, samples = 0;
  float profiles = 0;  // how often it was looked at
  float sparse = 0;    // 1: sparse
};

// The one list of these numbers: checkpoints keep them, ranks tell them to each other, and a run writes those that are
// `shown` to sparsity.jsonl. Their order is that of checkpoints.
struct HeadField {
  const char* name;
  float Head::*value;
  bool shown = true;
};
inline constexpr std::array<HeadField, 12> kHeadFields = {{{"query_sparsity", &Head::query_sparsity},
                                                           {"overlap", &Head::overlap},
                                                           {"needed", &Head::needed},
                                                           {"needed_predicted", &Head::needed_predicted},
                                                           {"needed_tiles", &Head::needed_tiles, false},
                                                           {"covered", &Head::covered},
                                                           {"quality", &Head::quality},
                                                           {"recall", &Head::recall},
                                                           {"rank", &Head::rank},
                                                           {"samples", &Head::samples},
                                                           {"profiles", &Head::profiles, false},
                                                           {"sparse", &Head::sparse}}};
static_assert(sizeof(Head) == kHeadFields.size() * sizeof(float), "every number of a head is in the list");

struct State {
  std::vector<Head> heads;  // layer by layer
  std::unique_ptr<predict::Predictor> predictor;
  std::vector<Buffer<float>> averages;  // mode static, of a layer: [heads][groups][tokens]; empty: nothing is known
  BreakEven break_even;

  void save(const std::string& path, const predict::ModelHeads& shape) const;
  // The break-even of the file, too, unless the run file names one. An Error names the file, and says whether it is
  // damaged or belongs to another model.
  void load(const std::string& path, const predict::ModelHeads& shape, const SparsityConfig& config);
};

}  // namespace reel::sparsity
