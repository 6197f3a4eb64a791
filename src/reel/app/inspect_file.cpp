#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "reel/app/inspect.h"
#include "reel/base/sized.h"
#include "reel/files/safetensors.h"
#include "reel/lists/ordered_lists.h"

namespace reel::app {

namespace {

// A name around its first running number: blocks. 3 .attn1.to_q.bias
struct Parts {
  std::string before, after;
  std::int64_t number = 0;
};

std::optional<Parts> split(const std::string& name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const char* last = name.data() + end;
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(name.data() + at, last, number);
    const bool plain = name[at] != '-' && (name[at] != '0' || end - at == 1);  // 007 is a name
    if (error == std::errc() && stop == last && plain) return Parts{name.substr(0, at), name.substr(end), number};
    at = end + 1;
  }
  return std::nullopt;
}

Json group(const std::string& name, const TensorInfo& info, std::size_t count) {
  return {{"name", name},
          {"dtype", dtype_name(info.dtype)},
          {"shape", info.shape},
          {"count", count},
          {"parameters", count * info.elements}};
}

Json groups(const SafetensorsFile& file, bool all) {
  using Key = std::tuple<std::string, std::string, Dtype, std::vector<std::int64_t>>;
  std::map<Key, std::map<std::int64_t, std::size_t>> runs;  // number in the name -> place in the file
  std::map<std::size_t, Json> lines;                        // by the place of the first tensor
  for (std::size_t i = 0; i < file.names().size(); ++i) {
    const std::string& name = file.names()[i];
    const TensorInfo& info = file.info(name);
    if (const auto parts = split(name); parts && !all) {
      runs[{parts->before, parts->after, info.dtype, info.shape}].emplace(parts->number, i);
    } else {
      lines.emplace(i, group(name, info, 1));
    }
  }
  for (const auto& [key, places] : runs) {
    for (auto begin = places.begin(); begin != places.end();) {
      auto end = std::next(begin);
      std::size_t first = begin->second;
      for (; end != places.end() && end->first == std::prev(end)->first + 1; ++end)
        first = std::min(first, end->second);
      const std::size_t count = sized(std::prev(end)->first - begin->first + 1);
      const std::string number =
          count == 1 ? std::to_string(begin->first) : fmt::format("{{{}..{}}}", begin->first, std::prev(end)->first);
      lines.emplace(first, group(std::get<0>(key) + number + std::get<1>(key), file.info(file.names()[first]), count));
      begin = end;
    }
  }
  Json result = Json::array();
  for (auto& [place, line] : lines) result.push_back(std::move(line));
  return result;
}

Json dtypes(const SafetensorsFile& file) {
  struct Total {
    std::size_t tensors = 0, parameters = 0, bytes = 0;
  };
  std::map<Dtype, Total> totals;
  for (const std::string& name : file.names()) {
    const TensorInfo& info = file.info(name);
    Total& total = totals[info.dtype];
    total = {total.tensors + 1, total.parameters + info.elements, total.bytes + info.bytes};
  }
  Json result = Json::array();
  for (const auto& [dtype, total] : totals) {
    result.push_back({{"dtype", dtype_name(dtype)},
                      {"tensors", total.tensors},
                      {"parameters", total.parameters},
                      {"bytes", total.bytes}});
  }
  return result;
}

bool holds_key_lists(const SafetensorsFile& file) {
  return file.contains("keys") && file.contains("offsets") && file.contains("group_starts") &&
         file.contains("dense_heads");
}

void add_key_lists(Json& json, const lists::OrderedLists& lists, bool all) {
  json.update({{"batch", lists.batch},
               {"heads", lists.heads},
               {"queries", lists.queries()},
               {"keys", lists.keys_tokens},
               {"granularity", lists.granularity},
               {"order", lists.order.empty()       ? "not said"
                         : lists.in_raster_order() ? "raster"
                                                   : "own"},
               {"head_dim", lists.head_dim > 0 ? Json(lists.head_dim) : Json()}});
  std::int64_t least = lists.queries(), most = 0;
  for (std::size_t g = 0; g + 1 < lists.group_starts.size(); ++g) {
    const std::int64_t size = lists.group_starts[g + 1] - lists.group_starts[g];
    least = std::min(least, size);
    most = std::max(most, size);
  }
  json["groups"] = {{"count", lists.groups()}, {"least", least}, {"most", most}};
  std::int64_t shortest = lists.keys_tokens, longest = 0, dense = 0;
  double sum = 0;
  std::vector<double> densities;
  Json of_heads = Json::array();
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    Json row = Json::array();
    for (std::int64_t h = 0; h < lists.heads; ++h) {
      dense += lists.dense(b, h) ? 1 : 0;
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        const std::int64_t tokens = lists.tokens(b, h, g);
        shortest = std::min(shortest, tokens);
        longest = std::max(longest, tokens);
        sum += static_cast<double>(tokens);
      }
      const double pairs = static_cast<double>(lists.queries()) * static_cast<double>(lists.keys_tokens);
      densities.push_back(pairs > 0 ? static_cast<double>(lists.pairs(b, h)) / pairs : 1.0);
      row.push_back(densities.back());
    }
    of_heads.push_back(std::move(row));
  }
  const double count = static_cast<double>(lists.batch * lists.heads * lists.groups());
  json["lists"] = {{"least", shortest}, {"mean", count > 0 ? sum / count : 0.0}, {"most", longest}};
  json["density"] = lists.density();
  json["dense_heads"] = dense;
  std::sort(densities.begin(), densities.end());
  if (!densities.empty()) {
    json["density_of_heads"] = {
        {"least", densities.front()}, {"median", densities[densities.size() / 2]}, {"most", densities.back()}};
  }
  if (all) json["of_heads"] = std::move(of_heads);
}

}  // namespace

Json look_at_file(const std::string& path, bool all) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::size_t parameters = 0, bytes = 0;
  for (const std::string& name : file.names()) {
    parameters += file.info(name).elements;
    bytes += file.info(name).bytes;
  }
  if (holds_key_lists(file)) {
    Json json = {{"kind", "key lists"}, {"path", path}, {"bytes", bytes}};
    add_key_lists(json, lists::load_key_lists(path), all);
    return json;
  }
  return {{"kind", "safetensors"},
          {"path", path},
          {"bytes", bytes},
          {"metadata", file.metadata()},
          {"tensors", file.names().size()},
          {"parameters", parameters},
          {"dtypes", dtypes(file)},
          {"groups", groups(file, all)}};
}

}  // namespace reel::app
