#include "sparsity/choose.h"

#include <algorithm>
#include <cmath>

#include "attention/select.h"
#include "base/buffer.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "sparsity/lists.h"

namespace reel::sparsity {

namespace {

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

void project(const float* rows, std::int64_t stride, std::int64_t count, const std::vector<float>& projection,
             const LowRank& low, float* out, std::int64_t out_stride, Threads& threads) {
  kernels::gemm({.form = kernels::Form::kDyW,
                 .rows = sized(count),
                 .columns = sized(low.rank),
                 .depth = sized(low.dim),
                 .a = {rows, sized(stride)},
                 .b = {projection.data(), sized(low.rank)},
                 .c = out,
                 .c_stride = sized(out_stride)},
                threads);
}

attention::KeyLists choose_keys(const ChooseInput& in, Threads& threads) {
  const std::int64_t tokens = in.order->tokens(), width = in.heads * in.head_dim;
  const std::int64_t n = static_cast<std::int64_t>(in.members.size()), scored = in.order->groups() * in.samples;
  std::int64_t rank = 0;
  for (const ChosenHead& member : in.members) rank = std::max(rank, member.low->rank);
  // Head-major: selection reads the keys of one head again and again. Ranks below the largest are filled with zeros.
  Buffer<float> low_q = Buffer<float>::zeros(sized(in.batch * n * scored * rank));
  Buffer<float> low_k = Buffer<float>::zeros(sized(in.batch * n * tokens * rank));
  Buffer<float> rows(sized(scored * in.head_dim));
  attention::SelectInput select;
  for (std::int64_t b = 0; b < in.batch; ++b) {
    for (std::int64_t i = 0; i < n; ++i) {
      const ChosenHead& member = in.members[sized(i)];
      const float* q = in.q + b * tokens * width + member.head * in.head_dim;
      for (std::size_t s = 0; s < in.sampled.size(); ++s) {
        std::copy_n(q + in.sampled[s] * width, in.head_dim, rows.data() + s * sized(in.head_dim));
      }
      project(rows.data(), in.head_dim, scored, member.low->q, *member.low, low_q.data() + (b * n + i) * scored * rank,
              rank, threads);
      project(in.k + b * tokens * width + member.head * in.head_dim, width, tokens, member.low->k, *member.low,
              low_k.data() + (b * n + i) * tokens * rank, rank, threads);
      select.keep.push_back(std::clamp<std::int64_t>(member.keep, 1, std::max<std::int64_t>(tokens - 1, 1)));
    }
  }
  if (kernels::any_not_finite(low_q, threads) || kernels::any_not_finite(low_k, threads)) return {};
  select.batch = in.batch, select.heads = n, select.keys = tokens, select.rank = rank, select.samples = in.samples;
  select.group_starts = in.order->group_starts;
  select.q = attention::head_major<const float>(low_q.data(), scored, n, rank);
  select.k = attention::head_major<const float>(low_k.data(), tokens, n, rank);
  select.scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  return with_own_tile(attention::select(select, threads));
}

}  // namespace reel::sparsity
