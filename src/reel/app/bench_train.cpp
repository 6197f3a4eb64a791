#include <fmt/format.h>

#include <algorithm>

#include "reel/app/bench.h"
#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/model/family.h"
#include "reel/train/trainer.h"

namespace reel::app {

namespace {

// 16 x 16 x 32 x 32 latents in patches of 1 x 2 x 2: 4,096 tokens.
constexpr const char* kDefault = R"(
[model]
family = "wan"
layers = 8
heads = 6
head_dim = 64
ffn = 1536
channels = 16
text_width = 512
text_tokens = 32
[video]
frames = 16
height = 32
width = 32
[train]
batch = 1
steps = 1000000
)";

train::RunConfig configuration(const BenchOptions& options) {
  Toml toml = options.model.empty() ? Toml::parse(kDefault, "bench train") : Toml::load(options.model);
  for (const std::string& each : options.set) toml.set(each);
  train::RunConfig config = train::parse_run(toml);
  if (options.tokens == 0) return config;
  const std::int64_t frame = config.video.height / config.model.patch[1] * config.video.width / config.model.patch[2];
  if (options.tokens < frame || options.tokens % frame != 0) {
    throw Error(fmt::format("--tokens is {}; a frame has {}", options.tokens, frame),
                fmt::format("use a multiple of {}, or other frames: --set video.height=...", frame));
  }
  config.video.frames = options.tokens / frame * config.model.patch[0];
  if (model::family_of(config.model).knows_length) config.model.frames = config.video.frames;
  return config;
}

data::Batch random_batch(const train::RunConfig& config) {
  data::Batch batch;
  batch.values = Buffer<float>(train::clip_shape(config, config.train.batch).size());
  batch.text = Buffer<float>(sized(config.train.batch * config.text_tokens * config.text_width));
  Random(1).fill_normal(batch.values);
  Random(2).fill_normal(batch.text);
  return batch;
}

// What has rows of its own.
bool is_large(const Work& work) { return is_self_attention(work) || is_cross_attention(work) || is_product(work); }
bool is_small(const Work& work) { return !is_large(work); }

// The best of some steps.
struct Step {
  double seconds = 0;
  std::vector<Record> records;
  double kept = 1;        // share of the query-key pairs that self-attention looked at
  double peak_bytes = 0;  // of the pool and what is beside it for as long as the run lasts
  double resident = 0;    // of the process at most while it trained; 0 where the system does not say

  Total of(const Wanted& wanted) const { return total_of(records, wanted); }
  double rest() const { return seconds - of(is_large).seconds; }
};

// With warm_up, a first step is not counted: it fills the memory pool, and where keys are chosen it profiles.
Step measure(const train::RunConfig& config, const train::StepNeed& need, std::int64_t steps, bool warm_up,
             Threads& threads) {
  reset_peak_resident();
  train::Trainer trainer(config, threads, train::sparsity_options(config, need, threads));
  Recorder recorder;
  Step best;
  for (std::int64_t i = warm_up ? 0 : 1; i <= steps; ++i) {
    recorder.clear();
    const Timer timer;
    const double kept = trainer.step([&] { return random_batch(config); }, &recorder).kept;
    const double seconds = timer.seconds();
    if (i == 0 || (best.seconds > 0 && seconds >= best.seconds)) continue;
    best.seconds = seconds;
    best.records = recorder.records();
    best.kept = kept;
  }
  best.peak_bytes = need.weights + need.gradients + need.optimizer + static_cast<double>(trainer.pool().peak_bytes());
  best.resident = peak_resident();
  return best;
}

void add_rows(Bench& bench, const std::string& name, const Step& step, const train::StepNeed& need,
              const Step* dense = nullptr) {
  BenchRow row{.name = name,
               .seconds = step.seconds,
               .flops = need.flops_with(step.kept),
               .more = {{"peak_bytes", step.peak_bytes},
                        {"peak_resident_bytes", step.resident},
                        {"tokens_per_second", static_cast<double>(need.tokens) / step.seconds},
                        {"attention_share_of_flops", need.self_attention_share()},
                        {"attention_share_of_step", step.of(is_self_attention).seconds / step.seconds},
                        {"rest_share_of_step", step.rest() / step.seconds}}};
  if (dense != nullptr) {
    row.speedup = dense->seconds / step.seconds;
    row.against = "dense";
    row.more["kept_share"] = step.kept;
    row.more["peak_resident_over_dense"] = dense->resident > 0 ? step.resident / dense->resident : 0;
  }
  bench.add(row);
  const Total attention = step.of(is_self_attention), cross = step.of(is_cross_attention), linear = step.of(is_product);
  bench.add({.name = "  attention, forward and backward", .seconds = attention.seconds, .flops = attention.flops});
  if (cross.count > 0) bench.add({.name = "  cross-attention", .seconds = cross.seconds, .flops = cross.flops});
  bench.add({.name = "  linear layers", .seconds = linear.seconds, .flops = linear.flops});
  bench.add({.name = fmt::format("  everything else: {:.1f} % of the step", 100 * step.rest() / step.seconds),
             .seconds = step.rest(),
             .more = {{"share_of_step", step.rest() / step.seconds}}});
  for (const Total& total : totals_by_name(step.records, is_small)) {
    if (total.seconds < 0.002 * step.seconds) continue;
    bench.add({.name = fmt::format("    {}", total.name), .seconds = total.seconds});
  }
}

// Dense against sparse, and against what is left when the attention that is left out costs nothing.
void compare(Bench& bench, const train::RunConfig& config, const train::StepNeed& need, const std::string& name,
             std::int64_t steps, Threads& threads) {
  const Step sparse = measure(config, need, steps, true, threads);
  train::RunConfig all_keys = config;
  all_keys.sparsity.mode = "off";
  const Step dense = measure(all_keys, need, 1, false, threads);
  const double attention = dense.of(is_self_attention).seconds;
  const double ceiling = dense.seconds / (dense.seconds - (1 - sparse.kept) * attention);
  const double speedup = dense.seconds / sparse.seconds;
  add_rows(bench, "train step dense " + name, dense, need);
  add_rows(bench, "train step sparse " + name, sparse, need, &dense);
  bench.add({.name = "ceiling: left-out keys cost nothing",
             .seconds = dense.seconds / ceiling,
             .speedup = ceiling,
             .against = "dense",
             .more = {{"reached_share_of_ceiling", speedup / ceiling}}});
  fmt::print(
      "\nself-attention is {:.1f} % of the dense step; with {:.1f} % of the pairs of queries and keys {:.2f} times the "
      "speed is "
      "the ceiling, and {:.2f} times, {:.0f} % of it, is reached\n",
      100 * attention / dense.seconds, 100 * sparse.kept, ceiling, speedup, 100 * speedup / ceiling);
  if (dense.resident > 0) {
    fmt::print("memory at most: dense {:.2f} GB, sparse {:.2f} GB ({:+.1f} %)\n", dense.resident / 1e9,
               sparse.resident / 1e9, 100 * (sparse.resident / dense.resident - 1));
  }
}

}  // namespace

void bench_train(const BenchOptions& options) {
  const train::RunConfig config = configuration(options);
  const train::StepNeed need = train::step_need(config);
  const double available = train::available_memory();
  fmt::print("{}\n", train::memory_line(need, available));
  train::check_memory(config, need, available);
  Threads threads(options.threads);
  const std::string name =
      fmt::format("{} {}x{}, {} tokens", config.model.family, config.model.layers, config.model.width(), need.tokens);
  Bench bench("training, f32", threads);
  if (config.sparsity.on()) {
    compare(bench, config, need, name, options.steps, threads);
  } else {
    const Step step = measure(config, need, options.steps, true, threads);
    add_rows(bench, "train step " + name, step, need);
    fmt::print("\n{:.2f} GB at most, {:.0f} tokens a second\n", step.peak_bytes / 1e9,
               static_cast<double>(need.tokens) / step.seconds);
  }
  bench.finish(options.json);
}

}  // namespace reel::app
