// The MLP of a mixture of experts as the tasks of one rank: a router, two exchanges of tokens each way, grouped
// products.
//
// Each token goes to top_k experts, evenly, as benchmarks force it and as balancing losses aim at. The passes are those
// of Megatron-LM's all-to-all dispatcher: copies of tokens are sorted by rank (permute), sent, sorted by expert where a
// rank has several, multiplied, and all of that back. Products run expert by expert (Transformer Engine's grouped
// linear layer launches one for each), and in fp8 each of their inputs and gradients is quantised by a pass of its own,
// where dense layers do that within norms and activations.
//
// With sequence parallelism a rank sends its own part of the tokens. The tensor ranks then gather what arrived and each
// computes its columns, or, where experts are whole (parallel.expert_tensor = 1), tokens go to the one rank that has
// the expert.
#pragma once

#include "reel/sim/layers.h"

namespace reel::sim {

class ExpertLayer {
 public:
  // `tokens`: of the rank's part of a micro-batch, before sequence parallelism cuts it. Both are kept by reference.
  ExpertLayer(Builder& builder, const Linears& linears, std::int64_t tokens);

  void forward(Tasks& tasks) const;
  void backward(Tasks& tasks) const;
  double parameters() const;         // of this rank, in experts
  double shared_parameters() const;  // of the router and of the expert that all tokens go to
  double kept() const;               // bytes from forward to backward
  double working() const;            // bytes more while it runs

 private:
  void dispatch(Tasks& tasks) const;
  void combine(Tasks& tasks) const;
  void products(Tasks& tasks, std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, bool ragged) const;
  void quantise(Tasks& tasks, std::int64_t width) const;

  Builder& b_;
  const Linears& linears_;
  std::int64_t tokens_, hidden_;
  std::int64_t own_;          // tokens that this rank routes
  std::int64_t local_;        // experts of a rank
  std::int64_t routed_;       // rows of the products of a rank, of all its experts
  std::int64_t each_;         // the same of one
  std::int64_t ffn_, wide_;   // columns of a rank: of the second product's input, of the first one's output
  std::int64_t shared_wide_;  // outputs of the shared expert's first product, of all tensor ranks
  bool gathers_;              // tensor ranks share each expert and have cut the sequence
  double sent_, arrived_;     // bytes of copies: that a rank sends, and that its products take
};

}  // namespace reel::sim
