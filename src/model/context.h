// What a forward pass runs in: the tape, and the one door through which self-attention reaches whatever decides how it
// is computed (key lists and sparsity today; ranks later).
#pragma once

#include <memory>

#include "attention/key_lists.h"
#include "sparsity/controller.h"
#include "tape/operations.h"

namespace reel::model {

using tape::Parameter;
using tape::Tape;
using tape::Tensor;

class Context {
 public:
  explicit Context(Tape& on) : tape(on) {}
  virtual ~Context() = default;

  // Self-attention of layer `layer` (counted over all self-attentions of the model, in the order they run):
  // q, k, v [batch, tokens, heads, head_dim] -> the same shape. Here: over `lists`, over the keys that `sparsity`
  // chooses, or over all keys. `origin` tells what q and k are made of, for predictors that start there.
  virtual Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                        const sparsity::Origin& origin = {});

  Tape& tape;
  bool recompute = false;  // blocks are run again in backward instead of keeping what they computed
  std::shared_ptr<const attention::KeyLists> lists;  // for tokens in raster order
  sparsity::Controller* sparsity = nullptr;          // wan only; tokens are put in its order at the model's entry
};

}  // namespace reel::model
