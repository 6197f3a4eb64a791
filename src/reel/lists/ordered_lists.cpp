#include "reel/lists/ordered_lists.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "reel/base/sized.h"

namespace reel::lists {

namespace {

std::int64_t metadata_number(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw Error(fmt::format("{}: the metadata has no '{}'", file.name(), key),
                "a file of key lists names keys_tokens and granularity in its metadata");
  }
  const std::string& text = found->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(fmt::format("{}: metadata '{}' is '{}'", file.name(), key, text), "it must be a whole number");
  }
  return value;
}

bool ascending(const std::vector<std::int32_t>& order) { return std::is_sorted(order.begin(), order.end()); }

}  // namespace

bool OrderedLists::in_raster_order() const { return ascending(order); }

void OrderedLists::check() const {
  KeyLists::check();
  if (head_dim < 0) {
    throw Error(fmt::format("key lists of heads with {} floats", head_dim), "leave head_dim out where it is not known");
  }
  if (order.empty()) return;
  const auto tokens = static_cast<std::int64_t>(order.size());
  if (tokens != keys_tokens || tokens != queries()) {
    throw Error(fmt::format("order of key lists names {} tokens, there are {} queries and {} keys", tokens, queries(),
                            keys_tokens),
                "token i of the lists, as query and as key, is token order[i] in raster order");
  }
  std::vector<std::uint8_t> named(order.size());
  for (const std::int32_t token : order) {
    if (token < 0 || token >= tokens || std::exchange(named[sized(token)], std::uint8_t{1}) != 0) {
      throw Error(fmt::format("order of key lists names token {} {}", token,
                              token < 0 || token >= tokens ? fmt::format("of {}", tokens) : "twice"),
                  "order names every token once, counted from 0 in raster order");
    }
  }
}

bool same_order(const OrderedLists& a, const OrderedLists& b) {
  return a.order == b.order || (a.in_raster_order() && b.in_raster_order());
}

void add_to(SafetensorsWriter& writer, const OrderedLists& lists) {
  lists.check();
  const auto size = [](const auto& values) { return static_cast<std::int64_t>(values.size()); };
  writer.add("keys", {size(lists.keys)}, std::span(lists.keys));
  writer.add("offsets", {size(lists.offsets)}, std::span(lists.offsets));
  writer.add("group_starts", {size(lists.group_starts)}, std::span(lists.group_starts));
  writer.add("dense_heads", {lists.batch, lists.heads}, std::span(lists.dense_heads));
  writer.set_metadata("keys_tokens", std::to_string(lists.keys_tokens));
  writer.set_metadata("granularity", std::to_string(lists.granularity));
  if (!lists.order.empty()) writer.add("order", {size(lists.order)}, std::span(lists.order));
  if (lists.head_dim != 0) writer.set_metadata("head_dim", std::to_string(lists.head_dim));
}

void save(const OrderedLists& lists, const std::string& path) {
  SafetensorsWriter writer;
  add_to(writer, lists);
  writer.write(path);
}

OrderedLists load_key_lists(const std::string& path) { return load_key_lists(SafetensorsFile::open(path)); }

OrderedLists load_key_lists(const SafetensorsFile& file) {
  OrderedLists lists;
  lists.keys_tokens = metadata_number(file, "keys_tokens");
  const std::int64_t granularity = metadata_number(file, "granularity");
  lists.granularity = static_cast<int>(std::clamp<std::int64_t>(granularity, -1, std::numeric_limits<int>::max()));
  lists.group_starts = file.read_i32("group_starts");
  lists.offsets = file.read_i64("offsets");
  lists.keys = file.read_i32("keys");
  lists.dense_heads = file.read_u8("dense_heads");
  const auto& shape = file.info("dense_heads").shape;  // [batch, heads], or [heads] for one batch item
  if (shape.empty() || shape.size() > 2) {
    throw Error(fmt::format("{}: dense_heads has {} dimensions", file.name(), shape.size()),
                "it must be [batch, heads]");
  }
  lists.batch = shape.size() == 2 ? shape[0] : 1;
  lists.heads = shape.back();
  if (file.contains("order")) lists.order = file.read_i32("order");
  if (file.metadata().contains("head_dim")) lists.head_dim = metadata_number(file, "head_dim");
  try {
    lists.check();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file.name(), error.what()), error.hint());
  }
  return lists;
}

}  // namespace reel::lists
