#include "reel/sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/sim/layers.h"

namespace reel::sim {

namespace {

double usable_bytes(const cost::Cluster& cluster) { return cluster.device.memory.bytes - kReservedBytes; }

double most_bytes(const Built& built) {
  double most = 0;
  for (const Memory& memory : built.memory) most = std::max(most, memory.peak());
  return most;
}

// Single changes that make it fit, the gentlest first; what they would leave over.
std::vector<std::string> advise(const Job& job, const cost::Cluster& cluster) {
  struct Change {
    std::string key;
    void (*apply)(Job&);
  };
  const Change changes[] = {
      {"memory.recompute = \"selective\"", [](Job& j) { j.recompute = "selective"; }},
      {"parallel.sequence_parallel = true", [](Job& j) { j.parallel.sequence_parallel = true; }},
      {"model.flash = true", [](Job& j) { j.model.flash = true; }},
      {"parallel.zero = 1", [](Job& j) { j.parallel.zero = std::max<std::int64_t>(1, j.parallel.zero); }},
      {"memory.recompute = \"full\"", [](Job& j) { j.recompute = "full"; }},
      {"half the micro-batch", [](Job& j) { j.micro_batch = std::max<std::int64_t>(1, j.micro_batch / 2); }},
      {"parallel.zero = 3", [](Job& j) { j.parallel.zero = 3; }},
      {"twice parallel.tensor, half data", [](Job& j) { j.parallel.tensor *= 2, j.parallel.data /= 2; }},
      {"twice parallel.pipeline, half data", [](Job& j) { j.parallel.pipeline *= 2, j.parallel.data /= 2; }},
      {"parallel.zero = 3 and memory.recompute = \"full\"", [](Job& j) { j.parallel.zero = 3, j.recompute = "full"; }},
  };
  std::vector<std::string> helps;
  const double now = most_bytes(build(job, cluster));
  for (const Change& change : changes) {
    Job changed = job;
    change.apply(changed);
    if (changed.parallel.data < 1 || changed.devices() != job.devices() || finish(changed)) continue;
    const double then = most_bytes(build(changed, cluster));
    if (then > 0.98 * now) continue;
    helps.push_back(
        fmt::format("{}: {:.1f} GiB{}", change.key, then / (1 << 30), then <= usable_bytes(cluster) ? ", fits" : ""));
  }
  return helps;
}

// Seconds of compute by kernel class in a rank's program, of all tasks or of those of one name.
std::array<double, 3> kernel_seconds(const Program& program, std::int32_t name) {
  std::vector<std::array<Picoseconds, 3>> of_block;
  for (const Block& block : program.blocks) {
    auto& sum = of_block.emplace_back();
    for (const Task& task : block.tasks) {
      if (task.kind == Kind::kCompute && (name < 0 || task.name == name)) sum[task.kernel] += task.duration;
    }
  }
  std::array<double, 3> result{};
  for (const Step& step : program.order) {
    for (std::size_t i = 0; i < 3; ++i) result[i] += seconds(of_block[sized(step.block)][i]);
  }
  return result;
}

// Seconds of the compute stream alone, calls at the price of their best placement.
double busy(const Workload& w, const Block& block) {
  double sum = 0;
  for (const Task& task : block.tasks) {
    if (task.stream != Stream::kCompute) continue;
    if (task.kind == Kind::kCompute) {
      sum += seconds(task.duration);
      continue;
    }
    const auto& costs = w.calls[sized(task.call)].costs;
    const auto best = std::min_element(costs.begin(), costs.end(),
                                       [](const CallCost& a, const CallCost& b) { return a.duration < b.duration; });
    sum += seconds(best->duration);
  }
  return sum;
}

constexpr std::size_t kHostTrust = 3;  // of the list below

void say_trust(Result& result, const Workload& w, const Program& program, const cost::Cluster& cluster) {
  auto kernels = kernel_seconds(program, -1);
  const auto wait = std::find(w.names.begin(), w.names.end(), kHostWait);
  const double host =
      wait == w.names.end() ? 0 : kernel_seconds(program, static_cast<std::int32_t>(wait - w.names.begin()))[0];
  kernels[0] -= host;  // where a wait is counted
  double exposed = 0;
  for (const Category c :
       {Category::kTensor, Category::kContext, Category::kExpert, Category::kPipeline, Category::kData})
    exposed += result.breakdown_seconds(c);
  result.trust = {{"matrix products", kernels[0], cluster.device.gemm.origin},
                  {"attention", kernels[1], cluster.device.attention.origin},
                  {"passes over memory", kernels[2], cluster.device.memory.origin},
                  {"waiting for the host", host, cluster.device.origin},
                  {"communication that nothing hides", exposed, cluster.fabric.origin},
                  {"slowdown beside communication", result.lost_seconds, cluster.overlap.origin}};
}

// Only gpts were ever compared, and none whose dense layers were too small for the device: what holds for them is a
// guess for others.
void say_error(Result& result, const Job& job, const cost::Cluster& cluster, double host_seconds) {
  const double compared = job.model.moe() ? cluster.step_error_experts : cluster.step_error;
  const bool small = !job.model.moe() && host_seconds > 0.1 * result.step_seconds;
  result.error_source = cluster.step_source;
  if (compared > 0 && job.model.kind == "gpt" && !small) {
    result.error_band = compared;
  } else {
    result.error_guess = std::max(cluster.step_guess, compared);
  }
}

Price price(const Result& result, const Job& job, const Options& options) {
  Price price;
  price.step = result.step_seconds / 3600 * static_cast<double>(result.devices) * options.per_device_hour;
  price.run = price.step * options.steps;
  price.billion_tokens = price.step * 1e9 / job.tokens_per_step();
  return price;
}

// Times are integer picoseconds: 106 days are the most that fit.
void check_length(const Workload& w) {
  constexpr double kMostSeconds = 1e6, kMostTask = 1e3;
  const double slow = w.slow.empty() ? 1 : *std::max_element(w.slow.begin(), w.slow.end());
  const auto refuse = [](const std::string& what) {
    throw Error(what, "look for a size with too many digits, or a [slow] factor that is too large");
  };
  double sum = 0;
  for (const Program& program : w.programs) {
    std::vector<double> of_block;
    for (const Block& block : program.blocks) {
      double& total = of_block.emplace_back();
      for (const Task& task : block.tasks) {
        double length = slow * seconds(task.duration);
        if (task.call >= 0) {
          for (const CallCost& cost : w.calls[sized(task.call)].costs)
            length = std::max(length, seconds(cost.duration));
        }
        if (length > kMostTask) refuse(fmt::format("'{}' would take {:.0f} s", w.names[sized(task.name)], length));
        total += length;
      }
    }
    for (const Step& step : program.order) sum += of_block[sized(step.block)];
  }
  if (sum > kMostSeconds) refuse(fmt::format("a step would take up to {:.0f} days", sum / 86400));
}

}  // namespace

Job defaults(const cost::Cluster& cluster) {
  Job job;
  job.model.flash = cluster.device.attention.fused;
  return job;
}

Result simulate(const Job& job, const cost::Cluster& cluster, const Options& options) {
  const Timer timer;
  if (job.precision == "fp8" && cluster.device.gemm.peak_fp8 <= 0) {
    throw Error(fmt::format("memory.precision = \"fp8\", but a device of {} cannot", cluster.name),
                "use \"bf16\", or another cluster");
  }
  const Built built = build(job, cluster, options.measured);
  const Workload& w = built.workload;
  Result result;
  result.devices = job.devices();
  result.device_memory = usable_bytes(cluster);
  std::size_t worst = 0;
  for (std::size_t p = 1; p < built.memory.size(); ++p) {
    if (built.memory[p].peak() > built.memory[worst].peak()) worst = p;
  }
  result.memory = built.memory[worst];
  result.memory_rank =
      std::find(w.program_of.begin(), w.program_of.end(), static_cast<std::int32_t>(worst)) - w.program_of.begin();
  result.fits = result.memory.peak() <= result.device_memory;

  check_length(w);
  const Folding folding = options.fold ? fold(w) : unfolded(w);
  const Timeline timeline = run(w, folding);
  const ClassTime& critical = timeline.classes[sized(timeline.critical)];
  result.critical_rank = folding.representative[sized(timeline.critical)];
  result.step_seconds = seconds(timeline.end);
  result.breakdown = critical.breakdown;
  result.beside_seconds = seconds(critical.beside);
  result.lost_seconds = seconds(critical.lost);
  result.classes = folding.classes();
  result.tasks = timeline.tasks;
  const double devices = static_cast<double>(job.devices());
  result.tokens_per_second_per_device = job.tokens_per_step() / (result.step_seconds * devices);
  const auto& gemm = cluster.device.gemm;
  const double peak = job.precision == "fp8" && gemm.peak_fp8 > 0 ? gemm.peak_fp8 : gemm.peak_bf16;
  result.model_flops_utilisation = model_flops(job) / (result.step_seconds * devices * peak);
  say_trust(result, w, w.programs[sized(w.program_of[sized(result.critical_rank)])], cluster);
  result.extrapolated =
      built.priced == 0 ? 0 : static_cast<double>(built.extrapolated) / static_cast<double>(built.priced);
  say_error(result, job, cluster, result.trust[kHostTrust].seconds);
  if (options.per_device_hour > 0) result.price = price(result, job, options);
  result.simulate_seconds = timer.seconds();
  if (!result.fits && options.advise) result.advice = advise(job, cluster);
  return result;
}

Outlook look_ahead(const Job& job, const cost::Cluster& cluster, const Options& options) {
  const Built built = build(job, cluster, options.measured);
  const Workload& w = built.workload;
  Outlook outlook;
  outlook.fits = most_bytes(built) <= usable_bytes(cluster);
  if (!outlook.fits) return outlook;
  double least = 0, way = 0;
  for (const Program& program : w.programs) {
    std::vector<double> of_block;
    for (const Block& block : program.blocks) of_block.push_back(busy(w, block));
    double sum = 0;
    for (const Step& step : program.order) sum += of_block[sized(step.block)];
    const bool stages = static_cast<std::int64_t>(w.programs.size()) == job.parallel.pipeline;
    least = std::max(least, sum + (stages ? way : 0));
    // the first pass is the first chunk's forward, the last but the optimizer its backward
    const std::size_t last = program.order.size() - 2;
    way += of_block[sized(program.order.front().block)] + of_block[sized(program.order[last].block)];
  }
  outlook.least_seconds = least * (1 - 1e-9);  // sums of doubles, not of picoseconds: never above the step
  return outlook;
}

}  // namespace reel::sim
