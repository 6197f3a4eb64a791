#include <algorithm>

#include "reel/sim/layers.h"

namespace reel::sim {

namespace {

using cost::CollectiveOp;
using cost::KernelClass;

}  // namespace

Linears::Linears(Builder& builder, std::int64_t tokens)
    : b_(builder),
      tokens_(tokens),
      tensor_(builder.job.parallel.tensor),
      cut_(builder.job.sequence_parallel()),
      activation_(2.0 * static_cast<double>(tokens) * static_cast<double>(builder.job.model.hidden)) {}

void Linears::gather_forward(Tasks& tasks, double hidden) const {
  if (cut_)
    tasks.collective("all-gather", kTensorSlot, CollectiveOp::kAllGather, activation_, Category::kTensor, hidden);
}

void Linears::sum_forward(Tasks& tasks, double hidden) const {
  tasks.collective(cut_ ? "reduce-scatter" : "all-reduce", kTensorSlot,
                   cut_ ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce, activation_, Category::kTensor,
                   hidden);
}

void Linears::gather_backward(Tasks& tasks) const { gather_forward(tasks); }

// With overlap.tensor a collective is cut into as many pieces as there are ranks; all but one hide behind the product.
void Linears::column_forward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const {
  const std::int64_t n = out / tensor_;
  double hidden = 0, longer = 0;
  if (cut_ && b_.job.overlap_tensor) {
    hidden = tasks.gemm_seconds(tokens_, n, in) * static_cast<double>(tensor_ - 1) / static_cast<double>(tensor_);
    longer = b_.hiding_seconds(kTensorSlot, CollectiveOp::kAllGather, activation_, hidden, KernelClass::kGemm);
  }
  gather_forward(tasks, hidden);
  tasks.gemm(name, tokens_, n, in, longer);
}

void Linears::row_forward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const {
  const std::int64_t k = in / tensor_;
  double hidden = 0, longer = 0;
  if (b_.job.overlap_tensor && tensor_ > 1) {
    const CollectiveOp op = cut_ ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
    hidden = tasks.gemm_seconds(tokens_, out, k) * static_cast<double>(tensor_ - 1) / static_cast<double>(tensor_);
    longer = b_.hiding_seconds(kTensorSlot, op, activation_, hidden, KernelClass::kGemm);
  }
  tasks.gemm(name, tokens_, out, k, longer);
  sum_forward(tasks, hidden);
}

// dx = dy W, dW = dy^T x; the gradient is added to what is there: 2 bytes read of the product, the sum read and
// written.
void Linears::products_backward(Tasks& tasks, std::string_view name, std::int64_t m, std::int64_t out, std::int64_t in,
                                double longer, bool narrow) const {
  tasks.gemm(name, m, in, out, longer, narrow);
  tasks.gemm(name, out, in, m, 0, narrow);
  const double sum = b_.job.gradients == "fp32" ? 4 : 2;
  tasks.memory("add gradient", (2 + 2 * sum) * static_cast<double>(out) * static_cast<double>(in));
}

// With sequence parallelism Megatron gathers the input again behind the first product and scatters the gradient behind
// the second; without, the all-reduce of the gradient stands alone.
void Linears::column_backward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in,
                              bool narrow) const {
  const std::int64_t n = out / tensor_;
  if (!cut_) {
    products_backward(tasks, name, tokens_, n, in, 0, narrow);
    sum_forward(tasks);
    return;
  }
  const double dx = tasks.gemm_seconds(tokens_, in, n), dw = tasks.gemm_seconds(n, in, tokens_);
  const double longer =
      b_.hiding_seconds(kTensorSlot, CollectiveOp::kAllGather, activation_, dx, KernelClass::kGemm) +
      b_.hiding_seconds(kTensorSlot, CollectiveOp::kReduceScatter, activation_, dw, KernelClass::kGemm);
  gather_forward(tasks, dx);
  products_backward(tasks, name, tokens_, n, in, longer, narrow);
  sum_forward(tasks, dw);
}

void Linears::row_backward(Tasks& tasks, std::string_view name, std::int64_t out, std::int64_t in) const {
  gather_backward(tasks);
  products_backward(tasks, name, tokens_, out, in / tensor_);
}

}  // namespace reel::sim
