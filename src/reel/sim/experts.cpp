#include "reel/sim/experts.h"

#include <algorithm>

namespace reel::sim {

namespace {

using cost::CollectiveOp;
using cost::KernelClass;

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

ExpertLayer::ExpertLayer(Builder& builder, const Linears& linears, std::int64_t tokens)
    : b_(builder), linears_(linears), tokens_(tokens), hidden_(builder.job.model.hidden) {
  const Job& job = b_.job;
  const Model& m = job.model;
  const bool whole = job.whole_experts();
  own_ = std::max<std::int64_t>(1, job.sequence_parallel() ? tokens / job.parallel.tensor : tokens);
  local_ = m.experts / job.parallel.expert;
  routed_ = (whole ? own_ : tokens) * m.top_k;
  each_ = std::max<std::int64_t>(1, routed_ / local_);
  ffn_ = whole ? m.ffn : m.ffn / job.parallel.tensor;
  wide_ = ffn_ * (m.gated ? 2 : 1);
  shared_wide_ = m.shared_ffn * (m.gated ? 2 : 1);
  gathers_ = job.sequence_parallel() && !whole;
  sent_ = 2 * real(own_ * m.top_k) * real(hidden_);
  arrived_ = 2 * real(routed_) * real(hidden_);
}

// Tokens to their experts: read once, written once for each expert; behind the exchange sorted by expert.
void ExpertLayer::dispatch(Tasks& tasks) const {
  tasks.memory("permute tokens", sent_ + sent_ / real(b_.job.model.top_k));
  tasks.collective("all-to-all of tokens", kExpertSlot, CollectiveOp::kAllToAll, sent_, Category::kExpert);
  if (gathers_) tasks.collective("all-gather", kTensorSlot, CollectiveOp::kAllGather, arrived_, Category::kTensor);
  if (b_.job.parallel.expert > 1 && local_ > 1) tasks.memory("sort by expert", 2 * arrived_);
}

void ExpertLayer::combine(Tasks& tasks) const {
  if (b_.job.parallel.expert > 1 && local_ > 1) tasks.memory("sort by rank", 2 * arrived_);
  if (gathers_) {
    tasks.collective("reduce-scatter", kTensorSlot, CollectiveOp::kReduceScatter, arrived_, Category::kTensor);
  } else if (!b_.job.whole_experts()) {
    tasks.collective("all-reduce", kTensorSlot, CollectiveOp::kAllReduce, arrived_, Category::kTensor);
  }
  tasks.collective("all-to-all of tokens", kExpertSlot, CollectiveOp::kAllToAll, sent_, Category::kExpert);
  tasks.memory("put tokens back", sent_ + sent_ / real(b_.job.model.top_k));
}

// One launch for each expert. ragged: the rows differ from expert to expert.
void ExpertLayer::products(Tasks& tasks, std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
                           bool ragged) const {
  const auto precision = b_.job.precision == "fp8" ? cost::Precision::kFp8 : cost::Precision::kBf16;
  const double launches = real(local_ - 1) * b_.device.launch_seconds();
  tasks.kernel(name, b_.device.seconds(cost::Gemm{m, n, k, local_, precision, ragged}) + launches, KernelClass::kGemm);
  tasks.launched(local_ - 1);
}

// 2 bytes read, 1 written by rows for the product and 1 by columns for the gradient of the weights; expert by expert.
void ExpertLayer::quantise(Tasks& tasks, std::int64_t width) const {
  if (b_.job.precision != "fp8") return;
  tasks.memory("quantise", 4 * real(routed_) * real(width));
  tasks.launched(local_ - 1);
}

void ExpertLayer::forward(Tasks& tasks) const {
  const Model& m = b_.job.model;
  tasks.gemm("router", own_, m.experts, hidden_, 0, false);
  // scores in f32: softmax, the largest, their mask and its counts, the loss that balances: six passes
  tasks.memory("choose experts", 6 * 4 * real(own_) * real(m.experts));
  tasks.launched(5);
  dispatch(tasks);
  quantise(tasks, hidden_);
  products(tasks, "experts in", each_, wide_, hidden_, true);
  tasks.memory("activation", 2 * real(routed_) * real(wide_ + ffn_));
  quantise(tasks, ffn_);
  products(tasks, "experts out", each_, hidden_, ffn_, true);
  combine(tasks);
  if (shared_wide_ == 0) return;
  linears_.column_forward(tasks, "shared expert in", shared_wide_, hidden_);
  tasks.memory("activation", 2 * real(tokens_) * real(shared_wide_ + m.shared_ffn) / real(linears_.tensor()));
  linears_.row_forward(tasks, "shared expert out", hidden_, m.shared_ffn);
}

void ExpertLayer::backward(Tasks& tasks) const {
  const Model& m = b_.job.model;
  const double sum = b_.job.gradients == "fp32" ? 4 : 2;
  if (shared_wide_ > 0) {
    linears_.row_backward(tasks, "shared expert out", hidden_, m.shared_ffn);
    tasks.memory("activation", 2 * real(tokens_) * real(2 * shared_wide_ + m.shared_ffn) / real(linears_.tensor()));
    linears_.column_backward(tasks, "shared expert in", shared_wide_, hidden_);
  }
  dispatch(tasks);
  quantise(tasks, hidden_);
  products(tasks, "experts out", each_, ffn_, hidden_, true);
  products(tasks, "experts out", hidden_, ffn_, each_, false);
  tasks.memory("activation", 2 * real(routed_) * real(2 * wide_ + ffn_));
  quantise(tasks, wide_);
  products(tasks, "experts in", each_, hidden_, wide_, true);
  products(tasks, "experts in", wide_, hidden_, each_, false);
  tasks.memory("add gradient", (2 + 2 * sum) * real(local_ * (wide_ + ffn_)) * real(hidden_));
  combine(tasks);
  tasks.memory("choose experts", 3 * 4 * real(own_) * real(m.experts));
  tasks.gemm("router", own_, hidden_, m.experts, 0, false);
  tasks.gemm("router", m.experts, hidden_, own_, 0, false);
}

double ExpertLayer::parameters() const { return real(local_) * real(hidden_) * real(wide_ + ffn_); }

double ExpertLayer::shared_parameters() const {
  const Model& m = b_.job.model;
  return real(hidden_) * (real(m.experts) + real(shared_wide_ + m.shared_ffn) / real(linears_.tensor()));
}

// Both products' inputs and the first one's output, of experts and of the shared one; the scores in f32.
double ExpertLayer::kept() const {
  const Model& m = b_.job.model;
  return 2 * real(routed_) * real(wide_ + ffn_) + sent_ +
         2 * real(tokens_) * real(shared_wide_ + m.shared_ffn) / real(linears_.tensor()) +
         4 * real(own_) * real(m.experts);
}

// Copies of tokens before and behind a sort, and both products' outputs.
double ExpertLayer::working() const { return sent_ + 2 * arrived_ + 2 * real(routed_) * real(wide_ + ffn_); }

}  // namespace reel::sim
