// `reel simulate overlap`: how much kernels slow down beside a collective.
#include <memory>

#include "reel/app/simulate.h"
#include "reel/base/error.h"
#include "reel/cost/kernels.h"
#include "reel/cost/overlap.h"
#include "reel/files/csv.h"

namespace reel::app {

namespace {

struct OverlapOptions {
  std::string cluster, table, measured, out;
  cost::Collective collective{cost::CollectiveOp::kAllReduce, 8, 8, 25e6, 1};
  std::string op = "all_reduce";
};

double share(const Csv& csv, std::size_t row, const char* column, const std::string& file) {
  const double value = csv.number(row, column);
  if (value >= 0 && value <= 1) return value;
  throw Error(fmt::format("{}:{}: {} is {}", file, csv.line(row), column, csv.text(row, column)), "a share is 0 to 1");
}

void price_kernels(const OverlapOptions& o) {
  const cost::Cluster cluster = cost::load_cluster(o.cluster);
  cost::Collective collective = o.collective;
  collective.op = cost::collective_from_name(o.op);
  const cost::CollectiveCost beside = cost_of(cluster, collective);
  const cost::OverlapTable measured = o.measured.empty() ? cost::OverlapTable() : cost::OverlapTable::load(o.measured);
  const Csv csv = Csv::load(o.table);
  for (const char* column : {"kernel", "alone"}) csv.column(column);
  CsvWriter out({"kernel", "alone", "overlapped", "slowdown", "basis"});
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& kernel = csv.text(row, "kernel");
    const cost::KernelClass kind = cost::class_of_kernel(kernel);
    std::string basis = "contention";
    double factor = 1;
    if (const auto seen = measured.slowdown_of(kernel)) {
      factor = *seen, basis = "measured";
    } else if (csv.has("sms") && csv.has("memory")) {
      const cost::Load load{share(csv, row, "sms", o.table), share(csv, row, "memory", o.table)};
      cost::Load taken = load_of(cluster, beside);
      if (csv.has("taken_sms")) taken.sms = share(csv, row, "taken_sms", o.table);
      if (csv.has("taken_memory")) taken.memory = share(csv, row, "taken_memory", o.table);
      factor = contention(load, taken);
    } else {
      factor = slowdown(cluster, kind, beside);
    }
    if (csv.has("overlap")) factor = 1 + share(csv, row, "overlap", o.table) * (factor - 1);
    const double alone = csv.number(row, "alone");
    out.add(kernel, alone, alone * factor, factor, basis);
  }
  if (o.out.empty()) {
    fmt::print("{}", out.text());
  } else {
    out.write(o.out);
    fmt::print("{} kernels on {}, in {}\n", csv.rows(), cluster.name, o.out);
  }
}

}  // namespace

void add_simulate_overlap(Verb& simulate, Action& action) {
  auto options = std::make_shared<OverlapOptions>();
  Verb* verb = simulate.add_subcommand("overlap", "how much kernels slow down beside a collective");
  verb->add_option("--cluster", options->cluster, "name of a cluster, or a file")->required();
  verb->add_option("--table", options->table,
                   "CSV: kernel, alone; optionally the shares sms and memory that it uses, overlap (of its time), and "
                   "taken_sms and taken_memory instead of the collective's")
      ->required()
      ->type_name("FILE");
  verb->add_option("--measured", options->measured, "CSV: kernel, alone, overlapped: kernels in it are taken from it")
      ->type_name("FILE");
  verb->add_option("--op", options->op, "the collective beside them")->capture_default_str();
  verb->add_option("--devices", options->collective.devices, "its devices")->capture_default_str();
  verb->add_option("--per-node", options->collective.per_node, "of them on a node")->capture_default_str();
  verb->add_option("--bytes", options->collective.bytes, "its size")->capture_default_str();
  verb->add_option("--out", options->out, "write the table there, not to the screen")->type_name("FILE")->to_write();
  verb->callback([options, &action] { action = [options] { price_kernels(*options); }; });
}

}  // namespace reel::app
