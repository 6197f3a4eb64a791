// `reel simulate collective` and `reel simulate calibrate`.
#include <map>
#include <memory>

#include "reel/app/measure.h"
#include "reel/app/simulate.h"
#include "reel/base/error.h"
#include "reel/cost/calibrate.h"
#include "reel/cost/collective.h"
#include "reel/cost/measured.h"
#include "reel/files/csv.h"
#include "reel/files/file.h"

namespace reel::app {

namespace {

struct CollectiveOptions {
  std::string cluster, table, out, op;
};

constexpr const char* kPriced[] = {"seconds", "algorithm", "protocol", "basis"};

// What a table has to have, and must not have, for its rows to be priced; the columns of the result.
std::vector<std::string> priced_columns(const Csv& csv, const std::string& file) {
  for (const char* column : {"op", "devices", "per_node", "bytes"}) csv.column(column);
  std::vector<std::string> columns = csv.columns();
  for (const char* name : kPriced) {
    if (csv.has(name))
      throw Error(fmt::format("{}:1: '{}' is a result", file, name), "rename the column, or leave it out");
    columns.emplace_back(name);
  }
  return columns;
}

// The collectives of a table, priced; what is wrong with a row is said with its line.
void price_table(const CollectiveOptions& o) {
  const cost::Cluster cluster = cost::load_cluster(o.cluster);
  const Csv csv = Csv::load(o.table);
  CsvWriter out(priced_columns(csv, o.table));
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    try {
      cost::Collective call;
      call.op = cost::collective_from_name(csv.text(row, "op"));
      call.devices = csv.integer(row, "devices");
      call.per_node = csv.integer(row, "per_node");
      call.bytes = csv.number(row, "bytes");
      if (csv.has("sharing")) call.sharing = csv.integer(row, "sharing");
      const cost::CollectiveCost cost = cost_of(cluster, call);
      std::vector<std::string> cells;
      for (std::size_t c = 0; c < csv.columns().size(); ++c) cells.push_back(csv.text(row, c));
      cells.push_back(fmt::format("{}", cost.seconds));
      cells.emplace_back(cost::algorithm_name(cost.algorithm));
      cells.emplace_back(cost::protocol_name(cost.protocol));
      cells.push_back(cluster.fabric.origin.basis + (cost.outside_fit ? ", beyond the fitted range" : ""));
      out.add_row(cells);
    } catch (const Error& error) {
      const std::string where = fmt::format("{}:{}", o.table, csv.line(row));
      if (std::string(error.what()).starts_with(where)) throw;
      throw Error(fmt::format("{}: {}", where, error.what()), error.hint());
    }
  }
  if (o.out.empty()) {
    fmt::print("{}", out.text());
  } else {
    out.write(o.out);
    fmt::print("{} collectives on {}, in {}\n", csv.rows(), cluster.name, o.out);
  }
}

void print_keys(const char* title, const std::vector<std::string>& keys) {
  if (!keys.empty()) fmt::print("{}: {}\n", title, fmt::join(keys, ", "));
}

void calibrate_cluster(const CollectiveOptions& o) {
  const cost::Cluster cluster = cost::load_cluster(o.cluster);
  const std::vector<cost::MeasuredCall> calls = cost::load_measured_calls(o.table, cluster, o.op);
  const cost::Fit fit = cost::calibrate(cluster, calls);
  std::map<std::pair<std::string, std::int64_t>, std::vector<cost::MeasuredCall>> series;
  for (const cost::MeasuredCall& call : calls) {
    series[{cost::collective_name(call.call.op), call.call.devices}].push_back(call);
  }
  fmt::print("{:<15}{:>9}{:>8}{:>12}{:>12}\n", "op", "devices", "calls", "before", "after");
  for (const auto& [key, some] : series) {
    fmt::print("{:<15}{:>9}{:>8}{:>10.1f} %{:>10.1f} %\n", key.first, key.second, some.size(),
               100 * cost::mean_error(cluster, some), 100 * cost::mean_error(fit.cluster, some));
  }
  fmt::print("{:<15}{:>9}{:>8}{:>10.1f} %{:>10.1f} %\n", "all", "", calls.size(), 100 * fit.before, 100 * fit.after);
  if (fit.left_out > 0) {
    fmt::print("each device count predicted from the others: {:.1f} %\n", 100 * fit.left_out);
  } else {
    fmt::print("only one device count: the error on others is not known\n");
  }
  print_keys("fitted", fit.fitted);
  print_keys("kept, the table says nothing of them", fit.kept);
  if (o.out.empty()) {
    fmt::print("--out FILE.toml keeps the result\n");
    return;
  }
  write_file_atomically(o.out, cost::with_fabric(read_file(cluster.path), fit.cluster));
  fmt::print("written to {}: use it as --cluster {}\n", o.out, o.out);
}

void add_common(Verb& verb, CollectiveOptions& options, const char* table) {
  verb.add_option("--cluster", options.cluster, "name of a cluster, or a file")->required();
  verb.add_option("--table", options.table, table)->required()->type_name("FILE");
}

}  // namespace

void add_simulate_collective(Verb& simulate, Action& action) {
  auto options = std::make_shared<CollectiveOptions>();
  Verb* verb = simulate.add_subcommand("collective", "how long collectives take on a cluster");
  add_common(*verb, *options, "CSV: op, devices, per_node, bytes (size column of nccl-tests), optionally sharing");
  verb->add_option("--out", options->out, "write the table with seconds there, not to the screen")
      ->type_name("FILE")
      ->to_write();
  verb->callback([options, &action] { action = [options] { price_table(*options); }; });
}

void add_simulate_calibrate(Verb& simulate, Action& action) {
  auto options = std::make_shared<CollectiveOptions>();
  Verb* verb = simulate.add_subcommand("calibrate", "fits a cluster's network to results of nccl-tests");
  add_common(*verb, *options, "what nccl-tests printed, or CSV: op, devices, per_node, bytes, seconds");
  verb->add_option("--op", options->op, "what was measured, where the table does not say it: all_reduce, ...");
  verb->add_option("--out", options->out, "write the cluster's file with the fitted values there")
      ->type_name("FILE")
      ->to_write();
  verb->callback([options, &action] { action = [options] { calibrate_cluster(*options); }; });
}

}  // namespace reel::app
