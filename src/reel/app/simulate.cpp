// reel simulate: a job on a cluster, tables of jobs, and the search for the best way to cut one.
#include "reel/app/simulate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "reel/base/error.h"
#include "reel/base/progress.h"
#include "reel/base/sized.h"
#include "reel/cost/kernels.h"
#include "reel/files/file.h"
#include "reel/sim/layers.h"
#include "reel/sim/search.h"
#include "reel/sim/simulate.h"
#include "reel/sim/table.h"
#include "reel/sim/trace_file.h"

namespace reel::app {

namespace {

struct Arguments {
  std::string job, cluster, table, out, trace, json, kernels, overlap;
  std::vector<std::int64_t> ranks;
  std::vector<std::string> set;
  std::int64_t devices = 0, top = 20;
  double price = 0, steps = 100000;
  bool no_fold = false;
};

// What the options point to, kept as long as the simulation lasts.
struct Setting {
  cost::Cluster cluster;
  std::unique_ptr<cost::KernelTable> kernels;
  std::unique_ptr<cost::OverlapTable> overlap;
  sim::Options options;
};

std::unique_ptr<Setting> setting(const Arguments& a) {
  if (a.cluster.empty()) {
    throw Error("no cluster given",
                fmt::format("use --cluster with one of {}, or with a file", fmt::join(cost::known_clusters(), ", ")));
  }
  auto s = std::make_unique<Setting>();
  s->cluster = cost::load_cluster(a.cluster);
  if (!a.kernels.empty()) s->kernels = std::make_unique<cost::KernelTable>(cost::KernelTable::load(a.kernels));
  if (!a.overlap.empty()) s->overlap = std::make_unique<cost::OverlapTable>(cost::OverlapTable::load(a.overlap));
  s->options.fold = !a.no_fold;
  s->options.measured = {s->kernels.get(), s->overlap.get()};
  s->options.per_device_hour = a.price;
  s->options.steps = a.steps;
  return s;
}

std::vector<std::string> overrides(const Arguments& a) {
  std::vector<std::string> result = a.set;
  if (a.devices > 0) result.push_back(fmt::format("parallel.devices={}", a.devices));
  return result;
}

nlohmann::ordered_json flat(const sim::Result& r, const sim::Job& job) {
  nlohmann::ordered_json json;  // what is not a number becomes null
  for (const auto& [name, value] : sim::figures(r)) {
    if (name == "fits") {
      json[name] = r.fits;
    } else {
      json[name] = value;
    }
  }
  json["devices"] = r.devices;
  json["parameters"] = sim::model_parameters(job);
  json["critical_rank"] = r.critical_rank;
  json["simulated_ranks"] = r.classes;
  for (const sim::Trust& t : r.trust) {
    std::string name = t.part;
    for (char& c : name) c = c == ' ' ? '_' : c;
    json["basis_" + name] = t.origin.basis;
    json["assumed_" + name] = fmt::format("{}", fmt::join(t.origin.assumed, ", "));
    json["seconds_" + name] = t.seconds;
  }
  return json;
}

std::string describe_error(const sim::Result& r) {
  const auto range = [&](double band) {
    return fmt::format("{:.4g} to {:.4g} s", r.step_seconds * (1 - band), r.step_seconds * (1 + band));
  };
  if (r.error_band)
    return fmt::format("{}: such predictions were off by {:.1f} % on average", range(*r.error_band),
                       100 * *r.error_band);
  std::string text = "not validated: no step of this kind was ever compared with a measured one";
  if (r.error_guess > 0)
    text += fmt::format("; guess: {} ({:.0f} %, {})", range(r.error_guess), 100 * r.error_guess, r.error_source);
  return text;
}

void print_memory(const sim::Result& r) {
  constexpr double kGiB = 1 << 30;
  fmt::print(
      "memory of rank {:<8}{:>9.2f} GiB of {:.1f}: weights {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations "
      "{:.2f}\n",
      r.memory_rank, r.memory.peak() / kGiB, r.device_memory / kGiB, r.memory.weights / kGiB, r.memory.gradients / kGiB,
      r.memory.optimizer / kGiB, r.memory.activations / kGiB);
  if (r.fits) return;
  fmt::print(stderr, "reel: warning: does not fit, {:.1f} GiB too much on rank {}; timed all the same\n",
             (r.memory.peak() - r.device_memory) / kGiB, r.memory_rank);
  for (const std::string& help : r.advice) fmt::print(stderr, "      {}\n", help);
  if (r.advice.empty()) fmt::print(stderr, "      use more devices: reel simulate search --devices ...\n");
}

void print_result(const sim::Result& r, const sim::Job& job, const cost::Cluster& cluster, const Arguments& a) {
  fmt::print("{}\n", sim::describe(job));
  print_memory(r);
  fmt::print("simulated on {}\n", cluster.name);
  fmt::print("  step                  {:>12.6f} s   ({})\n", r.step_seconds, describe_error(r));
  fmt::print("  tokens/s per device   {:>12.1f}\n", r.tokens_per_second_per_device);
  fmt::print("  model flops           {:>12.2f} % of peak\n", 100 * r.model_flops_utilisation);
  fmt::print("  rank {}, which ends last:\n", r.critical_rank);
  for (int i = 0; i < sim::kCategories; ++i) {
    const auto category = static_cast<sim::Category>(i);
    const double seconds = r.breakdown_seconds(category);
    if (seconds > 0)
      fmt::print("    {:<18}  {:>12.6f} s {:>6.1f} %\n", sim::category_name(category), seconds,
                 100 * seconds / r.step_seconds);
  }
  fmt::print("  what the simulated figures rest on:\n");
  for (const sim::Trust& t : r.trust) {
    if (t.seconds <= 0) continue;
    fmt::print("    {:<34}{:>11.6f} s  {}{}{}\n", t.part, t.seconds, t.origin.basis,
               t.origin.source.empty() ? "" : ": " + t.origin.source,
               t.origin.assumed.empty() ? "" : fmt::format(" (assumed: {})", fmt::join(t.origin.assumed, ", ")));
  }
  if (r.extrapolated > 0)
    fmt::print("    {:.0f} % of the collectives are beyond the sizes their constants were fitted on\n",
               100 * r.extrapolated);
  if (r.beside_seconds > 0) {
    fmt::print("    {:.6f} s of compute run beside communication, which costs {:.6f} s ({:.2f} % of the step)\n",
               r.beside_seconds, r.lost_seconds, 100 * r.lost_seconds / r.step_seconds);
  }
  if (r.price) {
    fmt::print("  at {:.2f} a device-hour: {:.4f} a step, {:.0f} for {:.0f} steps, {:.2f} a billion tokens\n", a.price,
               r.price->step, r.price->run, a.steps, r.price->billion_tokens);
  }
  fmt::print("  {} ranks simulated as {} in {:.3f} s\n", r.devices, r.classes, r.simulate_seconds);
}

void simulate_job(const Arguments& a) {
  if (!a.out.empty()) throw Error("--out is for --table", "--json FILE writes the results of a job");
  if (!a.ranks.empty() && a.trace.empty()) throw Error("--ranks is for --trace", "--trace FILE writes a trace");
  const auto s = setting(a);
  const sim::Job job = sim::load_job(a.job, overrides(a), sim::defaults(s->cluster));
  s->options.advise = true;
  const sim::Result result = sim::simulate(job, s->cluster, s->options);
  print_result(result, job, s->cluster, a);
  if (!a.json.empty()) write_file_atomically(a.json, flat(result, job).dump(2) + "\n");
  if (!a.trace.empty()) {
    sim::write_trace(job, s->cluster, s->options, a.ranks, a.trace);
    fmt::print("  trace in {}\n", a.trace);
  }
}

void simulate_table(const Arguments& a) {
  if (a.out.empty()) throw Error("simulate --table needs --out", "name the file for the results: --out results.csv");
  const std::pair<const char*, bool> unused[] = {{"--json", !a.json.empty()},
                                                 {"--trace", !a.trace.empty()},
                                                 {"--ranks", !a.ranks.empty()},
                                                 {"--set", !a.set.empty()},
                                                 {"--devices", a.devices > 0}};
  for (const auto& [option, given] : unused) {
    if (given) throw Error(fmt::format("{} is for one job, not for --table", option), "columns are the keys of a job");
  }
  const auto s = setting(a);
  std::unique_ptr<Progress> bar;
  const std::string text = sim::simulate_table(a.table, s->cluster, s->options, [&](std::size_t done, std::size_t all) {
    if (bar == nullptr) bar = std::make_unique<Progress>("simulate", static_cast<std::int64_t>(all));
    bar->update(static_cast<std::int64_t>(done));
  });
  bar.reset();
  write_file_atomically(a.out, text);
  fmt::print("simulated results in {}\n", a.out);
}

void search(const Arguments& a) {
  const auto s = setting(a);
  Toml toml = Toml::load(a.job);
  for (const std::string& assignment : a.set) toml.set(assignment);
  sim::Job job = sim::defaults(s->cluster);
  Settings settings(toml);
  sim::visit(settings, job);
  toml.check_all_used();
  const std::int64_t devices = a.devices > 0 ? a.devices : job.parallel.devices;
  if (devices <= 0) throw Error("search needs a number of devices", "use --devices 1024, or set parallel.devices");
  std::unique_ptr<Progress> bar;
  const sim::SearchResult found =
      sim::search(job, s->cluster, devices, sized(a.top), s->options, [&](std::int64_t done, std::int64_t all) {
        if (bar == nullptr) bar = std::make_unique<Progress>("search", all);
        bar->update(done);
      });
  bar.reset();
  fmt::print("simulated on {}: {} legal ways to use {} devices, {} fit, {} had to be timed\n", s->cluster.name,
             found.legal, devices, found.fitting, found.timed);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!found.best.empty()) {
    fmt::print("{:>10} {:>7} {:>8}  {:>6} {:>8} {:>10} {:>7} {:>6} {:>6} {:>5}  {:<9}{}\n", "simulated", "mfu %", "GiB",
               "tensor", "pipeline", "interleave", "context", "expert", "data", "micro", "recompute",
               a.price > 0 ? "  a billion tokens" : "");
  }
  for (const sim::Found& f : found.best) {
    const sim::Parallel& p = f.job.parallel;
    fmt::print("{:>8.3f} s {:>7.2f} {:>8.1f}  {:>6} {:>8} {:>10} {:>7} {:>6} {:>6} {:>5}  {:<9}{}{}\n",
               f.result.step_seconds, 100 * f.result.model_flops_utilisation, f.result.memory.peak() / (1 << 30),
               p.tensor, p.pipeline, p.interleave, p.context, p.expert, p.data, f.job.micro_batch, f.job.recompute,
               f.result.price ? fmt::format("  {:>16.2f}", f.result.price->billion_tokens) : "",
               p.plan.ranks() == 1 ? "" : "  " + p.plan.text());
    nlohmann::ordered_json row = {{"parallel.tensor", p.tensor},         {"parallel.pipeline", p.pipeline},
                                  {"parallel.interleave", p.interleave}, {"parallel.context", p.context},
                                  {"parallel.expert", p.expert},         {"parallel.data", p.data},
                                  {"parallel.plan", p.plan.text()},      {"batch.global", f.job.global_batch},
                                  {"batch.micro", f.job.micro_batch},    {"memory.recompute", f.job.recompute}};
    row.update(flat(f.result, f.job));
    rows.push_back(row);
  }
  if (!found.best.empty()) fmt::print("the fastest: {}\n", describe_error(found.best.front().result));
  if (found.best.empty()) {
    fmt::print(stderr,
               "reel: warning: none of them fits in {:.1f} GiB\n      use more devices, or parallel.zero = 1 or 3\n",
               (s->cluster.device.memory.bytes - sim::kReservedBytes) / (1 << 30));
  }
  if (!a.json.empty()) write_file_atomically(a.json, rows.dump(2) + "\n");
}

void add_common(Verb& verb, Arguments& a) {
  verb.add_option("--cluster", a.cluster, "name of a cluster (reel simulate --help lists them) or its file");
  verb.add_option("--json", a.json, "results for machines")->to_write();
  verb.add_option("--set", a.set, "override a key: --set parallel.tensor=4")->one_word();
  verb.add_option("--devices", a.devices,
                  "number of devices; where the job does not name parallel.data, that is what is left")
      ->between(1, 1 << 24);
  verb.add_option("--kernels", a.kernels, "CSV kernel,seconds: measured times that replace the model's");
  verb.add_option("--overlap", a.overlap, "CSV kernel,alone,overlapped: measured slowdowns beside communication");
  verb.add_option("--price", a.price, "of a device-hour: prints what a step, a run and a billion tokens cost")
      ->between(1e-6, 1e9);
  verb.add_option("--steps", a.steps, "steps of a run, for --price")->between(1.0, 1e12)->capture_default_str();
  verb.add_flag("--no-fold", a.no_fold, "simulate every rank and every micro-batch, for checking");
}

}  // namespace

void add_simulate(Verb& parser, Action& action) {
  auto a = std::make_shared<Arguments>();
  Verb* verb =
      parser.add_subcommand("simulate", "predicts what a training run takes on a cluster that nobody has rented");
  verb->footer([] { return fmt::format("clusters: {}", fmt::join(cost::known_clusters(), ", ")); });
  verb->add_option("job", a->job, "job.toml; ./search for a file that is named like a subcommand");
  add_common(*verb, *a);
  verb->add_option("--table", a->table, "CSV with a job a row, columns named like the keys of job.toml");
  verb->add_option("--out", a->out, "CSV to write: the table with the results as further columns")->to_write();
  verb->add_option("--trace", a->trace, "Chrome/Perfetto trace to write")->to_write();
  verb->add_option("--ranks", a->ranks, "ranks in the trace; without: one of each kind")->delimiter(',');
  add_simulate_collective(*verb, action);
  add_simulate_calibrate(*verb, action);
  add_simulate_overlap(*verb, action);
  auto b = std::make_shared<Arguments>();
  Verb* find = verb->add_subcommand("search", "every legal way to cut a job, the fastest that fit in memory first");
  find->add_option("job", b->job, "job.toml")->required();
  add_common(*find, *b);
  find->add_option("--top", b->top, "how many to show")->between(1, 10000)->capture_default_str();
  find->callback([b, &action] { action = [b] { search(*b); }; });
  verb->callback([a, verb, &action] {
    if (verb->subcommand_given()) return;
    action = [a] {
      if (a->job.empty() == a->table.empty()) {
        throw Error(a->job.empty() ? "simulate needs a job" : "simulate takes a job or --table, not both",
                    "reel simulate job.toml --cluster h100-ndr400");
      }
      a->table.empty() ? simulate_job(*a) : simulate_table(*a);
    };
  });
}

}  // namespace reel::app
