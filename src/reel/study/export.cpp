#include "reel/study/export.h"

#include <algorithm>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/safetensors.h"

namespace reel::study {

namespace {

using lists::KeyLists;

// What all forms share: the order of tokens, and a word about what this is.
class Writer {
 public:
  Writer(const ExportInput& in, const Exported& out) {
    const lists::OrderedLists& lists = in.chosen->lists;
    if (!lists.in_raster_order()) order_.assign(lists.order.begin(), lists.order.end());
    if (!order_.empty()) file.add("order", {static_cast<std::int64_t>(order_.size())}, std::span(order_));
    file.set_metadata("form", in.to);
    file.set_metadata("pairs", fmt::format("{:.6f}", out.pairs));
    file.set_metadata("listed_pairs", fmt::format("{:.6f}", out.listed_pairs));
    if (out.mass.empty()) return;
    const auto mean = [](const std::vector<double>& x) {
      return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    };
    file.set_metadata("mass", fmt::format("{:.6f}", mean(out.mass)));
    file.set_metadata("listed_mass", fmt::format("{:.6f}", mean(out.listed_mass)));
  }
  SafetensorsWriter file;

 private:
  std::vector<std::int64_t> order_;
};

Exported judged(const ChosenLists& chosen, const QueryRows& rows, double pairs) {
  Exported out;
  out.listed_pairs = chosen.lists.density();
  out.pairs = pairs;
  out.listed_mass = covered_mass(chosen, query_rows(chosen.lists));
  out.mass = covered_mass(chosen, rows);
  return out;
}

std::int64_t most_in_a_row(const BlockForm& form) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < form.offsets.size(); ++i)
    most = std::max(most, form.offsets[i + 1] - form.offsets[i]);
  return most;
}

std::string describe(const BlockForm& form, const std::string& kind) {
  const double mean = static_cast<double>(form.columns.size()) / static_cast<double>(form.offsets.size() - 1);
  return fmt::format("{}, {:.1f} of {} a row on average, at most {}", kind, mean, form.column_count(),
                     most_in_a_row(form));
}

// num [rows of all heads] and idx [rows][width] of the blocks that `take` says; behind them those that are left out, in
// order, as torch itself fills a BlockMask (width = columns), or zeros (less).
struct Indices {
  std::vector<std::int32_t> num, idx;
};
template <class Take>
Indices indices_of(const BlockForm& form, std::int64_t width, const Take& take) {
  Indices out;
  std::vector<char> taken;
  for (std::size_t i = 0; i + 1 < form.offsets.size(); ++i) {
    const std::size_t begin = out.idx.size();
    taken.assign(sized(form.column_count()), 0);
    for (std::int64_t j = form.offsets[i]; j < form.offsets[i + 1]; ++j) {
      if (!take(sized(j))) continue;
      out.idx.push_back(form.columns[sized(j)]);
      taken[sized(form.columns[sized(j)])] = 1;
    }
    out.num.push_back(static_cast<std::int32_t>(out.idx.size() - begin));
    for (std::int32_t c = 0; width == form.column_count() && c < form.column_count(); ++c) {
      if (taken[sized(c)] == 0) out.idx.push_back(c);
    }
    out.idx.resize(begin + sized(width), 0);
  }
  return out;
}

Exported export_flex(const ExportInput& in) {
  const KeyLists& lists = in.chosen->lists;
  const bool exact = in.fit == Fit::kCover;
  const std::int64_t size[] = {in.rows > 0 ? in.rows : 128, in.columns > 0 ? in.columns : 128};
  const BlockForm form = block_form(lists, lists::uniform_groups(lists.queries(), size[0]),
                                    lists::uniform_groups(lists.keys_tokens, size[1]), in.fit);
  Exported out = judged(*in.chosen, exact ? query_rows(lists) : query_rows(form), form.density());
  out.what = describe(form, fmt::format("{} x {} blocks", size[0], size[1]));
  Writer writer(in, out);
  const std::int64_t columns = form.column_count();
  const SafetensorsWriter::Shape rows = {lists.batch, lists.heads, form.rows()};
  const SafetensorsWriter::Shape cells = {lists.batch, lists.heads, form.rows(), columns};
  const Indices part = indices_of(form, columns, [&](std::size_t j) { return !exact || form.full[j] == 0; });
  const Indices full = exact ? indices_of(form, columns, [&](std::size_t j) { return form.full[j] != 0; }) : Indices{};
  writer.file.add("kv_num_blocks", rows, std::span(part.num));
  writer.file.add("kv_indices", cells, std::span(part.idx));
  const std::vector<std::int32_t> block = {static_cast<std::int32_t>(size[0]), static_cast<std::int32_t>(size[1])};
  const std::vector<std::int32_t> lengths = {static_cast<std::int32_t>(lists.queries()),
                                             static_cast<std::int32_t>(lists.keys_tokens)};
  writer.file.add("BLOCK_SIZE", {2}, std::span(block));
  writer.file.add("seq_lengths", {2}, std::span(lengths));
  std::vector<std::uint8_t> bits;
  std::vector<std::int32_t> group_of_query, tokens;
  if (exact) {
    writer.file.add("full_kv_num_blocks", rows, std::span(full.num));
    writer.file.add("full_kv_indices", cells, std::span(full.idx));
    const std::int64_t bytes = (lists.keys_tokens + 7) / 8;
    bits.assign(sized(lists.batch * lists.heads * lists.groups() * bytes), 0);
    for (std::int64_t i = 0; i < lists.batch * lists.heads * lists.groups(); ++i) {
      const std::int64_t head = i / lists.groups();
      lists.tokens(head / lists.heads, head % lists.heads, i % lists.groups(), tokens);
      for (const std::int32_t key : tokens) {
        bits[sized(i * bytes + key / 8)] |= static_cast<std::uint8_t>(1U << (static_cast<unsigned>(key) % 8U));
      }
    }
    for (std::int64_t g = 0; g < lists.groups(); ++g) {
      group_of_query.resize(sized(lists.group_starts[sized(g) + 1]), static_cast<std::int32_t>(g));
    }
    writer.file.add("token_mask", {lists.batch, lists.heads, lists.groups(), bytes}, std::span(bits));
    writer.file.add("group_of_query", {lists.queries()}, std::span(group_of_query));
  }
  writer.file.write(in.path);
  return out;
}

void refuse_empty_rows(const BlockForm& form, const char* kernel) {
  for (std::size_t i = 0; i + 1 < form.offsets.size(); ++i) {
    if (form.offsets[i + 1] > form.offsets[i]) continue;
    const auto rows = sized(form.rows());
    throw Error(fmt::format("query block {} of head {} has no keys", i % rows, i / rows % sized(form.heads)),
                fmt::format("{} divides by the sum over a row's keys: give every group at least one", kernel));
  }
}

Exported export_vsa(const ExportInput& in) {
  const KeyLists& lists = in.chosen->lists;
  if (lists.queries() != lists.keys_tokens) {
    throw Error(fmt::format("{} queries and {} keys", lists.queries(), lists.keys_tokens), "vsa is for self-attention");
  }
  std::int32_t largest = 0;
  for (std::size_t g = 0; g + 1 < lists.group_starts.size(); ++g) {
    largest = std::max(largest, lists.group_starts[g + 1] - lists.group_starts[g]);
  }
  const std::int64_t block = largest <= 64 ? 64 : largest <= 128 ? 128 : 256;
  if (largest > 256) {
    throw Error(fmt::format("groups of {} queries", largest),
                "tiles of vsa have at most 256 tokens, most kernels 64: --tile 4x4x4");
  }
  const BlockForm form = block_form(lists, lists.group_starts, lists.group_starts, in.fit);
  refuse_empty_rows(form, "vsa");
  Exported out = judged(*in.chosen, query_rows(form), form.density());
  out.what = describe(form, fmt::format("tiles of up to {} tokens, padded to {}", largest, block));
  Writer writer(in, out);
  const std::int64_t most = most_in_a_row(form);
  const Indices all = indices_of(form, most, [](std::size_t) { return true; });
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> places;
  for (std::int64_t g = 0; g < lists.groups(); ++g) {
    sizes.push_back(lists.group_starts[sized(g) + 1] - lists.group_starts[sized(g)]);
    for (std::int64_t i = 0; i < sizes.back(); ++i) places.push_back(g * block + i);
  }
  writer.file.add("q2k_idx", {lists.batch, lists.heads, form.rows(), most}, std::span(all.idx));
  writer.file.add("q2k_num", {lists.batch, lists.heads, form.rows()}, std::span(all.num));
  writer.file.add("variable_block_sizes", {lists.groups()}, std::span(sizes));
  writer.file.add("non_pad_index", {lists.queries()}, std::span(places));
  writer.file.set_metadata("block", std::to_string(block));
  writer.file.write(in.path);
  return out;
}

Exported export_mask(const ExportInput& in) {
  const KeyLists& lists = in.chosen->lists;
  const std::vector<std::int32_t> size = {static_cast<std::int32_t>(in.rows > 0 ? in.rows : 64),
                                          static_cast<std::int32_t>(in.columns > 0 ? in.columns : 64)};
  const BlockForm form = block_form(lists, lists::uniform_groups(lists.queries(), size[0]),
                                    lists::uniform_groups(lists.keys_tokens, size[1]), in.fit);
  Exported out = judged(*in.chosen, query_rows(form), form.density());
  out.what = describe(form, fmt::format("{} x {} blocks", size[0], size[1]));
  Writer writer(in, out);
  std::vector<std::uint8_t> mask((form.offsets.size() - 1) * sized(form.column_count()));
  for (std::size_t i = 0; i + 1 < form.offsets.size(); ++i) {
    for (std::int64_t j = form.offsets[i]; j < form.offsets[i + 1]; ++j) {
      mask[i * sized(form.column_count()) + sized(form.columns[sized(j)])] = 1;
    }
  }
  SafetensorsWriter::Shape shape = {lists.batch, lists.heads, form.rows(), form.column_count()};
  if (lists.batch == 1) shape.erase(shape.begin());
  writer.file.add("mask", shape, std::span(mask), Dtype::kBool);
  writer.file.add("block", {2}, std::span(size));
  writer.file.write(in.path);
  return out;
}

// The tokens of a list made exactly `count` many: without those furthest from the middle of its group, or with the
// nearest that it lacks.
void resize_list(std::vector<std::int32_t>& list, std::size_t count, std::int32_t middle, std::int32_t tokens) {
  const auto further = [&](std::int32_t a, std::int32_t b) {
    const std::int32_t x = std::abs(a - middle), y = std::abs(b - middle);
    return x != y ? x < y : a < b;
  };
  if (list.size() > count) {
    std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count), list.end(), further);
    list.resize(count);
  } else {
    std::vector<std::int32_t> more;
    const std::size_t listed = list.size();
    for (std::int32_t away = 0; listed + more.size() < count && away < tokens; ++away) {
      for (const std::int32_t token : {middle - away, middle + away}) {
        if (token < 0 || token >= tokens || (away == 0 && token != middle)) continue;
        if (listed + more.size() == count || (!more.empty() && more.back() == token)) continue;
        if (!std::binary_search(list.begin(), list.end(), token)) more.push_back(token);
      }
    }
    list.insert(list.end(), more.begin(), more.end());
  }
  std::sort(list.begin(), list.end());
}

Exported export_dsv(const ExportInput& in) {
  constexpr std::int64_t kAtOnce = 256, kRows = 32;
  const KeyLists& lists = in.chosen->lists;
  const std::int64_t tokens = lists.keys_tokens;
  if (tokens < kAtOnce)
    throw Error(fmt::format("lists over {} keys in the form dsv", tokens),
                "DSV's kernel reads 256 keys at a time: use flex, vsa or mask");
  // Its groups are all of one size, a multiple of 32: the lists' own, or 64, with what all of their queries look at.
  const std::int64_t own = lists.group_starts[1];
  const bool fits = own % kRows == 0 && lists.group_starts == lists::uniform_groups(lists.queries(), own);
  const std::int64_t group = fits ? own : 64;
  const BlockForm cover =
      block_form(lists, lists::uniform_groups(lists.queries(), group), lists::uniform_groups(tokens, 1), Fit::kCover);
  refuse_empty_rows(cover, "dsv");
  std::vector<std::int32_t> topk;
  std::int64_t most = 0;
  for (std::int64_t head = 0; head < lists.batch * lists.heads; ++head) {
    std::int64_t longest = 0;
    for (std::int64_t r = 0; r < cover.rows(); ++r) {
      longest = std::max(longest, static_cast<std::int64_t>(cover.row(0, head, r).size()));
    }
    const std::int64_t wanted = (longest + kAtOnce - 1) / kAtOnce * kAtOnce;
    topk.push_back(static_cast<std::int32_t>(std::min(wanted, tokens / kAtOnce * kAtOnce)));
    most = std::max<std::int64_t>(most, topk.back());
  }
  std::vector<std::int32_t> index, list;
  lists::KeyListsBuilder builder(lists.batch, lists.heads, tokens, cover.row_starts);
  for (std::int64_t head = 0; head < lists.batch * lists.heads; ++head) {
    for (std::int64_t r = 0; r < cover.rows(); ++r) {
      const auto row = cover.row(0, head, r);
      list.assign(row.begin(), row.end());
      const std::int32_t middle = (cover.row_starts[sized(r)] + cover.row_starts[sized(r) + 1]) / 2;
      resize_list(list, sized(topk[sized(head)]), std::min(middle, static_cast<std::int32_t>(tokens) - 1),
                  static_cast<std::int32_t>(tokens));
      builder.add(list);
      index.insert(index.end(), list.begin(), list.end());
      index.resize(sized((head * cover.rows() + r + 1) * most), 0);
    }
  }
  const KeyLists filled = builder.finish();
  Exported out = judged(*in.chosen, query_rows(filled), filled.density());
  out.what = fmt::format("groups of {} queries, {} to {} keys a head, filled to multiples of {}", group,
                         *std::min_element(topk.begin(), topk.end()), most, kAtOnce);
  Writer writer(in, out);
  const std::vector<std::int32_t> size = {static_cast<std::int32_t>(group)};
  writer.file.add("kv_index", {lists.batch, lists.heads, cover.rows(), most}, std::span(index));
  writer.file.add("topk_per_head", {lists.batch, lists.heads}, std::span(topk));
  writer.file.add("query_group_size", {1}, std::span(size));
  writer.file.write(in.path);
  return out;
}

}  // namespace

Exported export_lists(const ExportInput& in) {
  const KeyLists& lists = in.chosen->lists;
  if (lists.batch * lists.heads == 0 || lists.groups() == 0 || lists.keys_tokens == 0) {
    throw Error(fmt::format("key lists of {} heads, {} groups, {} keys", lists.batch * lists.heads, lists.groups(),
                            lists.keys_tokens),
                "there is nothing to export");
  }
  if (lists.pairs() == 0) throw Error("all key lists are empty", "there is nothing to attend to");
  if (in.to == "flex") return export_flex(in);
  if (in.to == "vsa") return export_vsa(in);
  if (in.to == "mask") return export_mask(in);
  REEL_CHECK(in.to == "dsv");
  return export_dsv(in);
}

}  // namespace reel::study
