#include "reel/predict/choose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "reel/attention/select.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"

namespace reel::predict {

namespace {

// Infinite where one of them is not finite.
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

// Low-rank queries and keys of the tokens here, and where each of them goes.
struct Own {
  std::vector<std::int32_t> order;  // rows by token
  std::vector<std::int64_t> cut;    // of `order` over the ranks that have the tokens
  Predicted values;
};

Own predict_own(const Predictor& predictor, const Seen& seen, std::span<const std::int64_t> heads,
                std::span<const std::int32_t> rows, std::int64_t rank, Threads& threads) {
  Own own;
  std::vector<std::int32_t> here(rows.begin(), rows.end());
  if (seen.ranks != nullptr) {
    own.order.resize(rows.size());
    std::iota(own.order.begin(), own.order.end(), 0);
    std::stable_sort(own.order.begin(), own.order.end(),
                     [&](std::int32_t a, std::int32_t b) { return rows[sized(a)] < rows[sized(b)]; });
    for (const std::int64_t start : seen.ranks->token_starts) {
      const auto at = std::lower_bound(own.order.begin(), own.order.end(), start,
                                       [&](std::int32_t i, std::int64_t token) { return rows[sized(i)] < token; });
      own.cut.push_back(at - own.order.begin());
    }
    here.clear();
    const auto part = sized(seen.ranks->rank);
    for (std::int64_t i = own.cut[part]; i < own.cut[part + 1]; ++i) {
      here.push_back(rows[sized(own.order[sized(i)])] - static_cast<std::int32_t>(seen.first()));
    }
  }
  const std::size_t each = sized(seen.batch * rank) * heads.size();
  own.values = {Buffer<float>(each * here.size()), Buffer<float>(each * sized(seen.tokens))};
  if (seen.tokens > 0) {
    predictor.predict(seen, heads, here, rank, own.values.q.data(), own.values.k.data(), threads);
  }
  return own;
}

Predicted gather(const Seen& seen, Own own, std::int64_t outer, std::int64_t rank) {
  if (seen.ranks == nullptr) return std::move(own.values);
  const Buffer<float> by_token = seen.ranks->gather(own.values.q, own.cut, outer, rank);
  Predicted all{Buffer<float>(by_token.size()),
                seen.ranks->gather(own.values.k, seen.ranks->token_starts, outer, rank)};
  const std::size_t rows = own.order.size(), width = sized(rank);
  for (std::size_t i = 0; i < sized(outer) * rows; ++i) {
    const std::size_t to = i / rows * rows + sized(own.order[i % rows]);
    std::copy_n(by_token.data() + i * width, width, all.q.data() + to * width);
  }
  return all;
}

}  // namespace

Predicted predict_all(const Predictor& predictor, const Seen& seen, std::span<const std::int64_t> heads,
                      std::span<const std::int32_t> rows, std::int64_t rank, Threads& threads) {
  return gather(seen, predict_own(predictor, seen, heads, rows, rank, threads),
                seen.batch * static_cast<std::int64_t>(heads.size()), rank);
}

lists::KeyLists choose_keys(const Seen& seen, const ChooseInput& in, Threads& threads) {
  const std::int64_t n = static_cast<std::int64_t>(in.members.size()), scored = in.order->groups() * in.samples;
  attention::SelectInput select;
  std::vector<std::int64_t> heads;
  for (const ChosenHead& member : in.members) {
    heads.push_back(member.head);
    select.rank = std::max(select.rank, in.predictor->rank(seen.layer, member.head));
  }
  Own own = predict_own(*in.predictor, seen, heads, in.sampled, select.rank, threads);
  if (!in.again) {
    std::array<double, 2> most = {largest_magnitude(own.values.q, threads), largest_magnitude(own.values.k, threads)};
    if (seen.ranks != nullptr) seen.ranks->largest(most);
    // Finite numbers may still have products beyond f32; for selection -1e30 is less than any score.
    if (!(most[0] * most[1] * static_cast<double>(select.rank) <= 1e29)) return {};
  }
  // Head-major: selection reads the keys of one head again and again.
  const Predicted low = gather(seen, std::move(own), seen.batch * n, select.rank);
  for (std::int64_t b = 0; b < seen.batch; ++b) {
    for (const ChosenHead& member : in.members) select.keep.push_back(std::max<std::int64_t>(member.keep, 0));
  }
  select.keep_own = true;
  select.keep_beside = in.beside;
  for (const std::int32_t token : in.always) {
    const std::int32_t entry = token / in.granularity;
    if (select.always.empty() || select.always.back() != entry) select.always.push_back(entry);
  }
  select.granularity = in.granularity;
  select.batch = seen.batch, select.heads = n, select.keys = seen.all_tokens(), select.samples = in.samples;
  select.group_starts = in.order->group_starts;
  select.q = attention::head_major<const float>(low.q.data(), scored, n, select.rank);
  select.k = attention::head_major<const float>(low.k.data(), seen.all_tokens(), n, select.rank);
  select.scale = 1.0f / std::sqrt(static_cast<float>(in.head_dim));
  return attention::select(select, threads);
}

}  // namespace reel::predict
