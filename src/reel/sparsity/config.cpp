#include "reel/sparsity/config.h"

namespace reel::sparsity {

void visit(Settings& s, SparsityConfig& c) {
  s.section("sparsity", "which keys self-attention looks at");
  s.choice("sparsity.mode", c.mode, {"off", "dynamic", "window", "random", "static", "own"},
           "dynamic finds the keys that matter; the others are controls: nearest, random, fixed, own tile only");
  s.number("sparsity.mass", c.mass, 0.1, 0.9999, "share of the attention that the kept keys of a group must carry");
  s.number("sparsity.keys", c.keys, 0, 1,
           "a fixed share of keys for every head instead, own tile included; 0: as many as the mass needs");
  s.numbers("sparsity.layer_keys", c.layer_keys, 0,
            "a fixed share of keys for every layer, 1: dense; no decision is left to make (benchmarks)");
  s.choice("sparsity.predictor", c.predictor, {"qk", "hidden"},
           "what finds the keys: projections of q and k in closed form, or of the block's input, trained (DSV)");
  s.integer(
      "sparsity.rank", c.rank, 0, 256,
      "of the predicted scores; 0: qk: head by head from their spectrum, 8 to 32; hidden: 3/4 of head_dim up to 32");
  s.integer("sparsity.samples", c.samples, 0, 4096, "queries of a group that are scored; 0: 16 or all, as measured");
  s.integers("sparsity.group", c.group, 3, "frames, rows and columns of tokens that share a list");
  s.integers("sparsity.keep", c.keep, 0, "frames of tokens that every list holds, in addition to its own tile");
  s.integers("sparsity.dense_layers", c.dense_layers, 0, "layers that always look at all keys");
  s.integer("sparsity.profile_every", c.profile_every, 1, Settings::kMany,
            "steps between looks at the true scores; five times as often in the first 100 steps");
  s.integer("sparsity.start", c.start, 0, Settings::kMany, "no head turns sparse before this step");
  s.number("sparsity.break_even", c.break_even, 0, 1,
           "share of keys above which a head stays dense; 0: from this machine's break-even, measured, and worth");
  s.number("sparsity.worth", c.worth, 1, 100,
           "without keys: a head stays dense above break-even divided by this, as it gains less than it may lose");
}

}  // namespace reel::sparsity
