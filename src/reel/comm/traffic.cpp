#include "reel/comm/traffic.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "reel/base/sized.h"
#include "reel/comm/comm.h"

namespace reel::comm {

namespace {

std::string rank_json(int rank, const Traffic& traffic) {
  std::string text = fmt::format("{{\"rank\": {}, \"rows\": [", rank);
  const char* separator = "";
  for (const auto& [key, row] : traffic.rows()) {
    const auto& [layer, phase, kind, group] = key;
    text += fmt::format(
        "{}\n  {{\"layer\": {}, \"phase\": \"{}\", \"operation\": \"{}\", \"group\": \"{}\", \"calls\": {}, "
        "\"bytes_sent\": {}}}",
        separator, layer < 0 ? "null" : std::to_string(layer), phase_name(phase), work::kind_name(kind), group,
        row.calls, row.bytes_sent);
    separator = ",";
  }
  return text + "]}";
}

}  // namespace

std::int64_t Traffic::bytes_sent() const {
  return std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& row) { return sum + row.second.bytes_sent; });
}

std::int64_t Traffic::bytes_sent(Kind kind, const Phase* phase) const {
  std::int64_t sum = 0;
  for (const auto& [key, row] : rows_) {
    if (std::get<2>(key) == kind && (phase == nullptr || std::get<1>(key) == *phase)) sum += row.bytes_sent;
  }
  return sum;
}

std::string traffic_json(Comm& world) {
  const std::string own = rank_json(world.rank(), world.shared().traffic);
  const auto ranks = sized(world.size());
  const auto length = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(ranks), each(ranks, sizeof(std::int64_t));
  world.all_gather_v(&length, lengths.data(), each);
  std::string all(sized(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})), ' ');
  world.all_gather_v(own.data(), all.data(), lengths);
  std::string text = "{\"ranks\": [";
  std::size_t at = 0;
  for (const std::int64_t bytes : lengths) {
    text += (at == 0 ? "\n" : ",\n") + all.substr(at, sized(bytes));
    at += sized(bytes);
  }
  return text + "\n]}\n";
}

}  // namespace reel::comm
