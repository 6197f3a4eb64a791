#include "reel/cost/measured.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "reel/base/error.h"
#include "reel/files/csv.h"
#include "reel/files/file.h"

namespace reel::cost {

namespace {

CollectiveOp op_at(const std::string& name, const std::string& where) {
  try {
    return collective_from_name(name);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", where, error.what()), error.hint());
  }
}

std::vector<MeasuredCall> from_csv(const Csv& csv, const std::string& name, const Cluster& cluster,
                                   const std::string& op) {
  const bool own = csv.has("seconds");
  const std::string size = own ? "bytes" : "size_B";
  const std::string time = own ? "seconds" : csv.has("oop_time_ns") ? "oop_time_ns" : "oop_time_us";
  const double unit = own ? 1 : time == "oop_time_ns" ? 1e-9 : 1e-6;
  const std::string op_column = own ? "op" : "collective";
  const std::string devices = own ? "devices" : csv.has("ngpus") ? "ngpus" : "gpus";
  const bool by_node = !own && csv.has("nodes");
  if (op.empty() && !own && !csv.has(op_column) && !by_node && !csv.has(devices))
    csv.column(devices);  // says what is missing
  std::vector<MeasuredCall> calls;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string where = fmt::format("{}:{}", name, csv.line(row));
    Collective call;
    call.op = csv.has(op_column) || own ? op_at(csv.text(row, op_column), where)
              : op.empty()              ? CollectiveOp::kAllReduce
                                        : op_at(op, where);
    if (by_node) {
      call.per_node = csv.integer(row, "gpus_per_node");
      call.devices = csv.integer(row, "nodes") * call.per_node;
    } else {
      call.devices = csv.integer(row, devices);
      call.per_node =
          csv.has("per_node") ? csv.integer(row, "per_node") : std::min(call.devices, cluster.fabric.per_node);
    }
    call.bytes = csv.number(row, size);
    const double seconds = csv.number(row, time) * unit;
    if (!std::isfinite(seconds) || seconds < 0 || !std::isfinite(call.bytes)) {
      throw Error(fmt::format("{}: {} is {}", where, time, csv.text(row, time)), "a measured time is above 0");
    }
    calls.push_back({call, seconds});
  }
  return calls;
}

bool to_number(const std::string& word, double& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

// "# Collective test starting: all_reduce_perf", or a command line kept as a comment.
std::string op_in_text(std::string_view text) {
  const std::size_t end = text.find("_perf");
  if (end == std::string_view::npos) return "";
  const std::size_t start = text.find_last_of(" \t\n/", end);
  return std::string(text.substr(start == std::string_view::npos ? 0 : start + 1, end - start - 1));
}

// Several logs may follow each other: each begins with its rank 0.
std::vector<MeasuredCall> from_text(std::string_view text, const std::string& name, const std::string& op) {
  std::string known = op;
  std::vector<MeasuredCall> calls;
  std::set<std::string> hosts;
  std::int64_t ranks = 0;
  std::istringstream lines{std::string(text)};
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    ++at;
    if (op.empty() && line.find("_perf") != std::string::npos) known = op_in_text(line);
    std::istringstream words_of(line);
    std::vector<std::string> words;
    for (std::string word; words_of >> word;) words.push_back(word);
    const auto is = [&](std::size_t i, const char* word) { return i < words.size() && words[i] == word; };
    if (is(0, "#") && is(1, "Rank")) {  // "#  Rank  0 Group  0 Pid   4711 on   node-1 device  0 [0x07] NVIDIA A100"
      if (is(2, "0")) ranks = 0, hosts.clear();
      ++ranks;
      const auto on = std::find(words.begin(), words.end(), "on");
      if (on != words.end() && on + 1 != words.end()) hosts.insert(*(on + 1));
      continue;
    }
    // size count type redop [root] time algbw busbw #wrong time algbw busbw #wrong
    double size = 0, time = 0;
    if (words.size() < 12 || !to_number(words[0], size) || !to_number(words[words.size() - 8], time)) continue;
    if (ranks == 0) {
      throw Error(fmt::format("{}:{}: no line '# Rank 0 ... on HOST device ...' before the first result", name, at),
                  "keep what nccl-tests prints before the table: it tells how many devices and nodes took part");
    }
    if (known.empty()) {
      throw Error(fmt::format("{}:{}: which collective was measured is not said", name, at),
                  "give --op all_reduce, or keep the command line in the file: # all_reduce_perf -b 8 -e 1G");
    }
    const auto nodes = static_cast<std::int64_t>(std::max<std::size_t>(hosts.size(), 1));
    if (ranks % nodes != 0) {
      throw Error(fmt::format("{}: {} ranks on {} hosts", name, ranks, nodes), "every node needs as many devices");
    }
    calls.push_back({{op_at(known, name), ranks, ranks / nodes, size}, time * 1e-6});
  }
  if (calls.empty()) {
    throw Error(fmt::format("{}: no results", name),
                "a CSV with op,devices,per_node,bytes,seconds, or what nccl-tests prints");
  }
  return calls;
}

bool same_series(const Collective& a, const Collective& b) {
  return a.op == b.op && a.devices == b.devices && a.per_node == b.per_node;
}

}  // namespace

std::vector<MeasuredCall> load_measured_calls(const std::string& path, const Cluster& cluster, const std::string& op) {
  return parse_measured_calls(read_file(path), path, cluster, op);
}

std::vector<MeasuredCall> parse_measured_calls(std::string_view text, const std::string& name, const Cluster& cluster,
                                               const std::string& op) {
  // A table's first line has commas and no '#'; the output of nccl-tests begins with '#' or a launcher's words.
  const std::string_view first = text.substr(0, text.find('\n'));
  const bool csv = first.find(',') != std::string_view::npos && first.find('#') == std::string_view::npos;
  const std::vector<MeasuredCall> all =
      csv ? from_csv(Csv::parse(text, name), name, cluster, op) : from_text(text, name, op);
  std::vector<MeasuredCall> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Collective& call = all[i].call;
    if (call.devices < 2 || call.bytes <= 0 || all[i].seconds <= 0) continue;
    const bool first_of_series = i == 0 || !same_series(all[i - 1].call, call);
    if (first_of_series && i + 1 < all.size() && same_series(all[i + 1].call, call) &&
        all[i + 1].call.bytes > call.bytes && all[i].seconds > 1.5 * all[i + 1].seconds) {
      continue;
    }
    cost_of(cluster, {call.op, call.devices, call.per_node, call.bytes});  // an Error where it cannot be placed
    kept.push_back(all[i]);
  }
  return kept;
}

}  // namespace reel::cost
