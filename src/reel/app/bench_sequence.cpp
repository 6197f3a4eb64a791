// reel bench sequence: ways to cut a model with spatial and temporal attention over ranks, on one shape.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reel/app/bench.h"
#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/comm/hollow.h"
#include "reel/comm/mpi.h"
#include "reel/files/file.h"
#include "reel/files/shipped.h"
#include "reel/kernels/peak.h"
#include "reel/model/family.h"
#include "reel/model/init.h"
#include "reel/train/objective.h"

namespace reel::app {

namespace {

struct Way {
  std::string key;  // of --only
  const char* name;
  layout::Degrees plan;
  double formula;  // bytes that a rank sends for a pair of blocks, forward, with cuts that are even
};

struct Pass {             // forward and backward
  double seconds = 0;     // of the slowest rank
  double waited = 0;      // the mean over the ranks, as what follows but peak_bytes
  double peak_bytes = 0;  // of activations and buffers, the largest rank
  double pair_bytes = 0;  // sent for a pair of blocks, forward
  double bytes = 0;       // sent
};

// The best of several passes, and of passes whose messages carry one byte: those wait for slower ranks all the same,
// so what is waited beyond that is waited for transfers.
struct Result {
  Pass full, hollow;
  double exposed() const { return std::max(0.0, full.waited - hollow.waited); }
  // The share of `transfer` seconds that was waited for. At most 1: small messages wait longer than their bytes take.
  double exposed_share(double transfer) const { return exposed() < transfer ? exposed() / transfer : 1; }
};

double largest(comm::Comm& world, double value) {
  std::vector<double> all(sized(world.size()), 0.0);
  all[sized(world.rank())] = value;
  world.all_reduce(std::span<double>(all));
  return *std::max_element(all.begin(), all.end());
}

double mean(comm::Comm& world, double value) {
  world.all_reduce({&value, 1});
  return value / world.size();
}

// Seconds that a byte takes to the next rank while all ranks send.
double seconds_per_byte(comm::Comm& world) {
  const int n = world.size();
  std::vector<char> out(std::size_t{8} << 20), in(out.size());
  const auto bytes = static_cast<std::int64_t>(out.size());
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    world.barrier();
    const Timer timer;
    auto incoming = world.start_receive(in.data(), bytes, (world.rank() + n - 1) % n, 0, {});
    world.start_send(out.data(), bytes, (world.rank() + 1) % n, 0, {}).wait();
    incoming.wait();
    const double seconds = largest(world, timer.seconds());  // who began last sees only the rest
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best / static_cast<double>(bytes);
}

// `world` has messages that arrive; those of `team` may be hollow.
Pass one_pass(const train::RunConfig& config, model::Denoiser& model, comm::Comm& world, parallel::Team& team,
              Threads& threads) {
  const diffusion::ClipShape shape = train::clip_shape(config, config.train.batch);
  std::vector<float> latents(shape.size());
  std::vector<float> text(sized(shape.batch * config.text_tokens * config.text_width));
  Random(1).fill_normal(latents);
  Random(2).fill_normal(text);
  tape::Pool pool;
  model.parameters().clear_gradients();
  world.barrier();
  world.shared().traffic.clear();
  world.shared().exposed = 0;
  const Timer timer;
  {
    tape::Tape tape(threads, pool, {});
    model::Context context(tape);
    context.team = &team;
    model::Input in = train::model_input(config, {}, shape.batch);
    in.latents = tape.copy_in({shape.batch, shape.channels, shape.frames, shape.height, shape.width}, latents);
    in.text = tape.copy_in({shape.batch, config.text_tokens, config.text_width}, text);
    const tape::Tensor out = model.forward(context, in);
    tape.backward(
        tape::given_loss(tape, out, 0, tape.copy_in(out.shape(), std::vector<float>(sized(out.size()), 1e-3f))));
  }
  const double seconds = timer.seconds(), waited = world.shared().exposed;
  double forward = 0, all = 0;
  for (const auto& [key, row] : world.shared().traffic.rows()) {
    if (std::get<0>(key) < 0) continue;  // entry and exit of the model are the same for all
    all += static_cast<double>(row.bytes_sent);
    if (std::get<1>(key) == Phase::kForward) forward += static_cast<double>(row.bytes_sent);
  }
  return {largest(world, seconds), mean(world, waited), largest(world, static_cast<double>(pool.peak_bytes())),
          mean(world, forward / static_cast<double>(config.model.layers)), mean(world, all)};
}

Result measure(const Way& way, const train::RunConfig& config, model::Denoiser& model, comm::Comm& world,
               std::int64_t steps, Threads& threads) {
  const auto free_network = comm::make_hollow(world);
  parallel::Team team(world, way.plan), hollow(*free_network, way.plan);
  const auto keep = [](Pass& best, const Pass& pass) {
    const bool first = best.seconds == 0;
    const double waited = first ? pass.waited : std::min(best.waited, pass.waited);
    if (first || pass.seconds < best.seconds) best = pass;
    best.waited = waited;
  };
  Result best;
  one_pass(config, model, world, team, threads);  // pages and caches
  for (std::int64_t i = 0; i < steps; ++i) {
    keep(best.full, one_pass(config, model, world, team, threads));
    keep(best.hollow, one_pass(config, model, world, hollow, threads));
  }
  return best;
}

}  // namespace

void bench_sequence(const BenchOptions& options) {
  comm::Session session;
  comm::Comm& world = session.world();
  Toml toml = Toml::load(options.model.empty() ? shipped_file("configs", "stdit3-bench.toml") : options.model);
  for (const std::string& each : options.set) toml.set(each);
  const train::RunConfig config = train::parse_run(toml);
  if (model::family_of(config.model).full_attention) {
    throw Error(fmt::format("bench sequence compares models with spatial and temporal attention; {} has neither",
                            config.model.family),
                fmt::format("use model.family = {}", model::names_of_families(false)));
  }
  const int n = world.size();
  if (n == 1) {
    throw Error("bench sequence compares ranks, and there is one",
                comm::mpi_version().empty() ? "this build has no MPI: install libopenmpi-dev and build again"
                                            : "mpirun -n 4 reel bench sequence");
  }
  Threads threads(options.threads);
  if (!options.no_poll) comm::poll_while_computing(threads, world);
  const auto model = model::make_denoiser(config.model, tape::Parameters::With::kGradients);
  model::initialise(*model);

  const std::int64_t frames = config.video.frames / config.model.patch[0];
  const std::int64_t down = config.video.height / config.model.patch[1];
  const std::int64_t across = config.video.width / config.model.patch[2];
  const auto tokens = static_cast<double>(config.train.batch * frames * down * across);
  const double m = tokens * static_cast<double>(config.model.width()) * sizeof(float);  // M: all tokens of one tensor
  const double switched = m / n * (n - 1) / n;                                          // what an all-to-all sends
  const Way ways[] = {{"dsp", "DSP", {.dsp = n}, 2 * switched},
                      {"ulysses-both", "Ulysses in both blocks", {.ulysses = n, .both = true}, 8 * switched},
                      {"ulysses", "Ulysses in the spatial block", {.ulysses = n}, 4 * switched},
                      {"ring", "Ring in the spatial block", {.ring = n}, 2 * m / n * (n - 1)}};
  const double per_byte = seconds_per_byte(world);
  const bool root = world.rank() == 0;
  if (root) {
    fmt::print("{}: {} pairs of blocks, width {}, {:.0f} tokens, {} ranks of {} thread{}, {:.0f} MB/s between them\n\n",
               config.model.family, config.model.layers, config.model.width(), tokens, n, threads.count(),
               threads.count() == 1 ? "" : "s", 1e-6 / per_byte);
    fmt::print("{:<30} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "", "MB/pair", "formula", "MB/pass",
               "peak MB", "time ms", "free ms", "send ms", "exposed");
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Way& way : ways) {
    if (!options.only.empty() && options.only != way.key) continue;
    const Result r = measure(way, config, *model, world, options.steps, threads);
    if (!root) continue;
    const double transfer = r.full.bytes * per_byte;
    fmt::print("{:<30} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.0f} %\n", way.name,
               r.full.pair_bytes / 1e6, way.formula / 1e6, r.full.bytes / 1e6, r.full.peak_bytes / 1e6,
               1e3 * r.full.seconds, 1e3 * r.hollow.seconds, 1e3 * transfer, 100 * r.exposed_share(transfer));
    std::fflush(stdout);
    rows.push_back({{"case", way.name},
                    {"plan", way.plan.text()},
                    {"bytes_per_rank_and_pair", r.full.pair_bytes},
                    {"formula_bytes_per_rank_and_pair", way.formula},
                    {"bytes_per_rank", r.full.bytes},
                    {"peak_bytes", r.full.peak_bytes},
                    {"seconds", r.full.seconds},
                    {"free_network_seconds", r.hollow.seconds},
                    {"transfer_seconds", transfer},
                    {"waited_seconds", r.full.waited},
                    {"exposed_seconds", r.exposed()},
                    {"exposed_share", r.exposed_share(transfer)}});
  }
  if (!root) return;
  // Four all-gathers and four reduce-scatters of all tokens.
  const double megatron = 8 * m * (n - 1) / n;
  fmt::print("{:<30} {:>12} {:>12.3f}\n", "Megatron-LM sequence parallel", "-", megatron / 1e6);
  fmt::print(
      "\nMB/pair: sent by a rank for a spatial and a temporal block, forward (mean); formula: for cuts that are even.\n"
      "MB/pass, time: forward and backward; free: the same with messages of one byte, as if the network cost nothing;\n"
      "send: what MB/pass take on the link alone; exposed: the share of that which a rank waited for.\n");
  if (options.json.empty()) return;
  rows.push_back({{"case", "Megatron-LM sequence parallel"}, {"formula_bytes_per_rank_and_pair", megatron}});
  const cost::Machine machine = machine_of_peak(threads, kernels::peak_flops(threads));
  const nlohmann::ordered_json json = {
      {"machine", to_json(machine)}, {"ranks", n}, {"threads", threads.count()}, {"tokens", tokens}, {"rows", rows}};
  write_file_atomically(options.json, json.dump(2) + "\n");
}

}  // namespace reel::app
