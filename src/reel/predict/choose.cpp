#include "reel/predict/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/attention/select.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"

namespace reel::predict {

namespace {

double largest_magnitude(const Buffer<float>& values, Threads& threads) {
  if (kernels::any_not_finite(values, threads)) return std::numeric_limits<double>::infinity();
  std::array<float, 16> most = {};  // in lanes: one after the other waits for every comparison
  std::size_t i = 0;
  for (; i + most.size() <= values.size(); i += most.size()) {
    for (std::size_t j = 0; j < most.size(); ++j) most[j] = std::max(most[j], std::abs(values[i + j]));
  }
  for (; i < values.size(); ++i) most[0] = std::max(most[0], std::abs(values[i]));
  return static_cast<double>(*std::max_element(most.begin(), most.end()));
}

}  // namespace

Predicted predict_heads(const Predictor& predictor, const Seen& seen, std::span<const std::int64_t> heads,
                        std::span<const std::int32_t> rows, Threads& threads) {
  Predicted low{.batch = seen.batch};
  for (const std::int64_t head : heads) low.rank = std::max(low.rank, predictor.rank(seen.layer, head));
  const std::size_t each = sized(seen.batch * low.rank) * heads.size();
  low.q = Buffer<float>(each * rows.size());
  low.k = Buffer<float>(each * sized(seen.tokens));
  if (seen.tokens > 0) predictor.predict(seen, heads, rows, low.rank, low.q.data(), low.k.data(), threads);
  return low;
}

std::array<double, 2> largest_magnitudes(const Predicted& low, Threads& threads) {
  return {largest_magnitude(low.q, threads), largest_magnitude(low.k, threads)};
}

bool scores_are_finite(const std::array<double, 2>& largest, std::int64_t rank) {
  return largest[0] * largest[1] * static_cast<double>(rank) <= 1e29;  // for selection -1e30 is less than any score
}

lists::KeyLists choose_keys(const Predicted& low, const ChooseInput& in, Threads& threads) {
  const lists::TokenOrder& order = *in.order;
  const std::int64_t n = static_cast<std::int64_t>(in.members.size());
  const std::int64_t last = in.last_group == 0 ? order.groups() : in.last_group, groups = last - in.first_group;
  const std::int64_t scored = groups * in.samples, tokens = order.tokens();
  REEL_CHECK(groups >= 0 && low.q.size() == sized(low.batch * n * scored * low.rank) &&
             low.k.size() == sized(low.batch * n * tokens * low.rank));
  attention::SelectInput select;
  select.batch = low.batch, select.heads = n, select.keys = tokens, select.samples = in.samples, select.rank = low.rank;
  select.first_query = order.group_starts[sized(in.first_group)];
  for (std::int64_t g = in.first_group; g <= last; ++g) {
    select.group_starts.push_back(order.group_starts[sized(g)] - static_cast<std::int32_t>(select.first_query));
  }
  for (std::int64_t b = 0; b < low.batch; ++b) {
    for (const ChosenHead& member : in.members) select.keep.push_back(std::max<std::int64_t>(member.keep, 0));
  }
  select.keep_own = true;
  select.keep_beside = in.beside;
  for (const std::int32_t token : in.always) {
    const std::int32_t entry = token / in.granularity;
    if (select.always.empty() || select.always.back() != entry) select.always.push_back(entry);
  }
  select.granularity = in.granularity;
  // Head-major: selection reads the keys of one head again and again.
  select.q = attention::head_major<const float>(low.q.data(), scored, n, low.rank);
  select.k = attention::head_major<const float>(low.k.data(), tokens, n, low.rank);
  select.scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  return attention::select(select, threads);
}

lists::KeyLists choose_keys(const Predictor& predictor, const Seen& seen, std::span<const std::int32_t> sampled,
                            const ChooseInput& in, Threads& threads) {
  std::vector<std::int64_t> heads;
  for (const ChosenHead& member : in.members) heads.push_back(member.head);
  const Predicted low = predict_heads(predictor, seen, heads, sampled, threads);
  if (!scores_are_finite(largest_magnitudes(low, threads), low.rank)) return {};
  return choose_keys(low, in, threads);
}

}  // namespace reel::predict
