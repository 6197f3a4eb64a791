#include "sparsity/choose.h"

#include <algorithm>
#include <cmath>

#include "attention/select.h"
#include "base/buffer.h"
#include "kernels/elementwise.h"
#include "sparsity/lists.h"

namespace reel::sparsity {

namespace {

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

double largest(const Buffer<float>& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return static_cast<double>(most);
}

}  // namespace

attention::KeyLists choose_keys(const Seen& seen, const ChooseInput& in, Threads& threads) {
  const std::int64_t n = static_cast<std::int64_t>(in.members.size()), scored = in.order->groups() * in.samples;
  attention::SelectInput select;
  std::vector<std::int64_t> heads;
  for (const ChosenHead& member : in.members) {
    heads.push_back(member.head);
    select.rank = std::max(select.rank, in.predictor->rank(seen.layer, member.head));
  }
  // Head-major: selection reads the keys of one head again and again.
  Buffer<float> low_q(sized(seen.batch * n * scored * select.rank)),
      low_k(sized(seen.batch * n * seen.tokens * select.rank));
  in.predictor->predict(seen, heads, in.sampled, select.rank, low_q.data(), low_k.data(), threads);
  if (kernels::any_not_finite(low_q, threads) || kernels::any_not_finite(low_k, threads)) return {};
  // Finite numbers may still have products beyond f32; for selection -1e30 is less than any score.
  if (largest(low_q) * largest(low_k) * static_cast<double>(select.rank) > 1e29) return {};
  const std::int64_t entries = (seen.tokens + in.granularity - 1) / in.granularity;
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    for (const ChosenHead& member : in.members) {
      select.keep.push_back(std::clamp<std::int64_t>(member.keep, 1, std::max<std::int64_t>(entries - 1, 1)));
    }
  }
  select.granularity = in.granularity;
  select.batch = seen.batch, select.heads = n, select.keys = seen.tokens, select.samples = in.samples;
  select.group_starts = in.order->group_starts;
  select.q = attention::head_major<const float>(low_q.data(), scored, n, select.rank);
  select.k = attention::head_major<const float>(low_k.data(), seen.tokens, n, select.rank);
  select.scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  return with_own_tile(attention::select(select, threads), in.always);
}

}  // namespace reel::sparsity
