#include "reel/study/chosen_lists.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gather.h"
#include "reel/lists/controls.h"
#include "reel/predict/choose.h"
#include "reel/predict/qk_predictor.h"
#include "reel/predict/weights.h"
#include "reel/study/hidden_fit.h"

namespace reel::study {

namespace {

// The weights of all keys, summed over queries [first, end).
Buffer<float> true_weights(const Buffer<float>& q, const Buffer<float>& k, std::int64_t first, std::int64_t end,
                           std::int64_t dim, std::int64_t tokens, Threads& threads) {
  const predict::ScoreInput scores{
      q.data() + first * dim, k.data(), dim, dim, end - first, tokens, dim, 1.0f / std::sqrt(static_cast<float>(dim))};
  return predict::group_weights(predict::softmax_rows(scores, threads), tokens, threads);
}

constexpr std::int64_t kSeenGroups = 4;  // 75,000 tokens of 40 heads: 24 MB beside lists of a gigabyte

void check(const ChooseListsInput& in) {
  if (!(in.keys > 0 && in.keys <= 1)) {
    throw Error(fmt::format("lists of {} of the keys", in.keys), "use a share above 0 and up to 1, as 0.1");
  }
  if (in.block != 1 && in.block != lists::kTileKeys) {
    throw Error(fmt::format("blocks of {} keys", in.block), fmt::format("use 1 or {}", lists::kTileKeys));
  }
  if (in.predictor != "qk" && in.predictor != "hidden" && in.predictor != "true") {
    throw Error(fmt::format("predictor '{}'", in.predictor), "known predictors: qk, hidden, true");
  }
  if (in.predictor == "hidden" && in.file->width() == 0) {
    throw Error(
        fmt::format("{}: predictor hidden needs the tensor 'hidden', which is not there", in.file->name()),
        "save the input of the layer's projections as `hidden` [tokens, width], and with RoPE also rope_cos and\n"
        "rope_sin [tokens, head_dim / 2]; or use --predictor qk, which needs q and k alone");
  }
}

// By the true weights of all queries of a group, in f32: choose_keys scores as many queries of every group, those of
// short ones more than once. No heads where a weight is not finite.
lists::KeyLists true_lists(const ChooseListsInput& in, const Buffer<float>& q, const Buffer<float>& k,
                           Threads& threads) {
  const lists::TokenOrder& order = *in.order;
  const std::int64_t tokens = order.tokens(), dim = in.file->head_dim();
  const std::int64_t keep = lists::budget_of(in.keys, (tokens + in.block - 1) / in.block);
  lists::KeyListsBuilder builder(1, 1, tokens, order.group_starts, in.block);
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    const std::int64_t first = order.group_starts[sized(g)], end = order.group_starts[sized(g) + 1];
    const Buffer<float> weights = true_weights(q, k, first, end, dim, tokens, threads);
    if (kernels::any_not_finite(weights, threads)) return {};
    std::vector<float> entries = predict::block_sums(weights, sized(in.block));
    const std::int64_t own = first / in.block, own_end = (end - 1) / in.block + 1;
    std::fill(entries.begin() + own, entries.begin() + own_end, std::numeric_limits<float>::max());
    builder.add(predict::largest(entries, sized(std::max(keep, own_end - own))));
  }
  return builder.finish();
}

// By queries and keys of a few numbers each, or by the true ones; [tokens][rank]. No heads where scores are not finite.
struct Scorers {
  const float *q, *k;
  std::int64_t rank;
};
lists::KeyLists chosen_of(const Scorers& by, const predict::ChooseInput& choose, std::span<const std::int32_t> sampled,
                          Threads& threads) {
  const std::size_t tokens = sized(choose.order->tokens()), rank = sized(by.rank);
  predict::Predicted low{.rank = by.rank, .q = Buffer<float>(sampled.size() * rank), .k = Buffer<float>(tokens * rank)};
  kernels::gather_rows({by.q, tokens, rank}, sampled, {low.q.data(), sampled.size(), rank}, threads);
  std::copy_n(by.k, tokens * rank, low.k.data());
  if (!predict::scores_are_finite(predict::largest_magnitudes(low, threads), low.rank)) return {};
  return predict::choose_keys(low, choose, threads);
}

// Lists of one head.
lists::KeyLists lists_of_head(const ChooseListsInput& in, const Buffer<float>& q, const Buffer<float>& k,
                              const std::optional<HiddenFit>& fit, std::span<const std::int32_t> sampled,
                              std::int64_t samples, Threads& threads) {
  const std::int64_t dim = in.file->head_dim();
  const predict::Seen seen{0, 1, in.order->tokens(), q.data(), k.data(), nullptr};
  const std::int64_t entries = (in.order->tokens() + in.block - 1) / in.block;
  const predict::ChooseInput choose{.order = in.order,
                                    .head_dim = dim,
                                    .samples = samples,
                                    .granularity = in.block,
                                    .members = {{0, lists::budget_of(in.keys, entries)}}};
  lists::KeyLists lists;
  if (in.predictor == "true" && in.samples <= 0) {
    lists = true_lists(in, q, k, threads);
  } else if (in.predictor == "true") {
    lists = chosen_of({q.data(), k.data(), dim}, choose, sampled, threads);
  } else if (in.predictor == "hidden") {
    const LowPair low = fit->fit(q.data(), k.data(), dim, in.rank > 0 ? in.rank : kHiddenRank, threads);
    lists = chosen_of({low.q.data(), low.k.data(), low.rank}, choose, sampled, threads);
  } else {
    const predict::ModelHeads shape{1, 1, dim};
    predict::QkPredictor predictor(shape, std::min(in.rank, dim));
    predictor.learn(seen, true, threads);
    if (predictor.knows(0)) lists = predict::choose_keys(predictor, seen, sampled, choose, threads);
  }
  if (lists.heads != 1) {
    throw Error(fmt::format("{}: scores of q and k overflow f32", in.file->name()),
                "save q and k after their norm, and apply the softmax scale");
  }
  return lists;
}

}  // namespace

std::span<const float> ChosenLists::weights_of(std::int64_t head, std::size_t seen) const {
  const std::size_t keys = sized(lists.keys_tokens);
  return std::span<const float>(weights).subspan((sized(head) * seen_groups.size() + seen) * keys, keys);
}

ChosenLists choose_lists(const ChooseListsInput& in, Threads& threads) {
  check(in);
  const QkFile& file = *in.file;
  const lists::TokenOrder& order = *in.order;
  const std::int64_t tokens = order.tokens(), dim = file.head_dim();
  const std::vector<std::int64_t> seen = lists::spread_groups(order, kSeenGroups, 0);
  ChosenLists chosen;
  chosen.seen_groups.assign(seen.begin(), seen.end());
  chosen.weights = Buffer<float>(sized(file.heads() * tokens) * seen.size());
  std::optional<HiddenFit> fit;
  if (in.predictor == "hidden") fit = fit_hidden(file, order, threads);
  std::int64_t samples = in.samples;
  for (std::int64_t g = 0; g < order.groups() && in.samples <= 0; ++g) {
    samples = std::max<std::int64_t>(samples, order.group_starts[sized(g) + 1] - order.group_starts[sized(g)]);
  }
  const std::vector<std::int32_t> sampled = lists::sample_queries(order, samples);
  lists::KeyListsBuilder builder(1, file.heads(), tokens, order.group_starts, in.block);
  for (std::int64_t h = 0; h < file.heads(); ++h) {
    if (in.on_head) in.on_head(h);
    const Buffer<float> q = file.head("q", h, order.raster, threads), k = file.head("k", h, order.raster, threads);
    if (in.keys >= 1) {
      builder.add_dense_head();
    } else {
      const lists::KeyLists one = lists_of_head(in, q, k, fit, sampled, samples, threads);
      builder.add_head(one, 0, 0);
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::int64_t first = order.group_starts[sized(seen[i])];
      const std::int64_t queries = order.group_starts[sized(seen[i]) + 1] - first;
      const Buffer<float> weights = true_weights(q, k, first, first + queries, dim, tokens, threads);
      kernels::scale(
          1.0f / static_cast<float>(queries), weights,
          std::span<float>(chosen.weights).subspan((sized(h) * seen.size() + i) * sized(tokens), sized(tokens)),
          threads);
    }
  }
  chosen.lists = lists::OrderedLists(builder.finish(), order.raster, dim);
  chosen.notes["predictor"] = in.predictor;
  return chosen;
}

QueryRows query_rows(const lists::KeyLists& lists) {
  return {lists.group_starts, [&lists](std::int64_t b, std::int64_t h, std::int64_t row,
                                       std::vector<std::int32_t>& out) { lists.tokens(b, h, row, out); }};
}

std::vector<double> covered_mass(const ChosenLists& chosen, const QueryRows& rows) {
  std::vector<double> mass;
  if (chosen.weights.size() == 0) return mass;
  const lists::KeyLists& lists = chosen.lists;
  std::vector<std::int32_t> tokens;
  for (std::int64_t h = 0; h < lists.heads; ++h) {
    double sum = 0;
    for (std::size_t i = 0; i < chosen.seen_groups.size(); ++i) {
      const std::span<const float> weights = chosen.weights_of(h, i);
      const std::int32_t first = lists.group_starts[sized(chosen.seen_groups[i])];
      const std::int32_t end = lists.group_starts[sized(chosen.seen_groups[i]) + 1];
      // Each row of which the group has queries, by how many.
      for (auto row = std::upper_bound(rows.starts.begin(), rows.starts.end(), first) - rows.starts.begin() - 1;
           rows.starts[sized(row)] < end; ++row) {
        const std::int32_t shared =
            std::min(end, rows.starts[sized(row) + 1]) - std::max(first, rows.starts[sized(row)]);
        rows.tokens(0, h, row, tokens);
        double here = 0;
        for (const std::int32_t token : tokens) here += static_cast<double>(weights[sized(token)]);
        sum += here * shared / (end - first);
      }
    }
    mass.push_back(sum / static_cast<double>(chosen.seen_groups.size()));
  }
  return mass;
}

void save(const ChosenLists& chosen, const std::string& path) {
  SafetensorsWriter writer;
  lists::add_to(writer, chosen.lists);
  const std::int64_t tokens = chosen.lists.keys_tokens, seen = static_cast<std::int64_t>(chosen.seen_groups.size());
  writer.add("seen_groups", {seen}, std::span(chosen.seen_groups));
  writer.add("weights", {chosen.lists.heads, seen, tokens}, std::span<const float>(chosen.weights), Dtype::kBF16);
  for (const auto& [key, value] : chosen.notes) writer.set_metadata(key, value);
  writer.write(path);
}

ChosenLists load_chosen_lists(const std::string& path) {
  ChosenLists chosen;
  const SafetensorsFile file = SafetensorsFile::open(path);
  chosen.lists = lists::load_key_lists(file);
  const std::int64_t tokens = chosen.lists.keys_tokens;
  const auto wrong = [&](const char* what) {
    return Error(fmt::format("{}: {}", path, what), "make the file anew with reel study lists");
  };
  if (file.contains("weights") && chosen.lists.batch == 1) {
    chosen.seen_groups = file.read_i32("seen_groups");
    for (const std::int32_t g : chosen.seen_groups) {
      if (g < 0 || g >= chosen.lists.groups()) throw wrong("seen_groups names a group that is not there");
    }
    const std::vector<std::int64_t> shape = {chosen.lists.heads, static_cast<std::int64_t>(chosen.seen_groups.size()),
                                             tokens};
    if (file.info("weights").shape != shape) throw wrong("weights do not have the shape [heads, seen groups, tokens]");
    if (!chosen.seen_groups.empty()) chosen.weights = file.read_f32("weights");
  }
  chosen.notes = file.metadata();
  return chosen;
}

}  // namespace reel::study
