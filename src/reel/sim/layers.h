// The layers of a model as the tasks of one rank: what runs forward and backward for a micro-batch, and what it keeps.
//
// Kernels are those of Megatron-LM and, for video, of models with adaLN and cross-attention: products, attention, and
// fused passes over memory (norm; bias, dropout and residual; bias and activation). Backward has both products of each
// linear layer and adds the gradient of the weights to what earlier micro-batches left.
#pragma once

#include <vector>

#include "reel/sim/builder.h"

namespace reel::sim {

struct LayerWork {
  std::vector<Task> forward, backward;
  double parameters = 0;         // of this rank, experts left out
  double expert_parameters = 0;  // of this rank
  double kept = 0;               // bytes of activations from forward to backward
  double checkpoint = 0;         // the same where all is run again
  double working = 0;            // bytes more while it runs
};

// Tensor-parallel linear layers on the rank's part of the sequence. Column: the weight's outputs are cut, its input is
// gathered; row: its inputs are cut, its output is summed.
class Linears {
 public:
  Linears(Builder& builder, std::int64_t tokens);

  void column_forward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const;
  void column_backward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in,
                       bool narrow = true) const;
  void row_forward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const;
  void row_backward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const;
  // Sums partial outputs over tensor ranks, or gathers a cut input.
  void sum_forward(Tasks& tasks, double hidden = 0) const;
  void gather_forward(Tasks& tasks, double hidden = 0) const;
  void gather_backward(Tasks& tasks) const;  // of the gradient of what sum_forward gave
  void products_backward(Tasks& tasks, std::string_view name, std::int64_t m, std::int64_t out, std::int64_t in,
                         double longer = 0, bool narrow = true) const;

  double activation() const { return activation_; }  // bytes of [tokens][hidden]
  bool cut() const { return cut_; }                  // sequence-parallel
  std::int64_t tensor() const { return tensor_; }

 private:
  Builder& b_;
  std::int64_t tokens_, tensor_;
  bool cut_;
  double activation_;
};

LayerWork gpt_layer(Builder& builder);
// `part`: tensor rank, `piece`: context rank, `copy`: data rank, whose heads they are; the same for all where no head
// has a sparsity of its own.
LayerWork dit_layer(Builder& builder, std::int64_t layer, const Coordinates& who);

// The first stage's embedding and the last stage's vocabulary: products, loss.
LayerWork gpt_embedding(Builder& builder);
LayerWork gpt_head(Builder& builder);

// Floating-point operations of one step of the whole job, forward and backward once, as model_flops_utilisation counts
// them: products and attention of all pairs (Megatron's convention), of the computed ones where attention is sparse.
double model_flops(const Job& job);
double model_parameters(const Job& job);

}  // namespace reel::sim
