#include <fmt/format.h>

#include <algorithm>

#include "app/bench.h"
#include "base/error.h"
#include "base/random.h"
#include "base/timer.h"
#include "train/trainer.h"

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
  if (config.model.family == "latte") config.model.frames = config.video.frames;
  return config;
}

data::Batch random_batch(const train::RunConfig& config) {
  data::Batch batch;
  batch.values = Buffer<float>(train::clip_shape(config, config.train.batch).size());
  batch.text = Buffer<float>(static_cast<std::size_t>(config.train.batch * config.text_tokens * config.text_width));
  Random(1).fill_normal(batch.values);
  Random(2).fill_normal(batch.text);
  return batch;
}

struct Parts {
  double attention = 0, linear = 0, rest = 0;  // seconds
  double attention_flops = 0, linear_flops = 0;
};

Parts split(const Recorder& recorder, double seconds) {
  Parts parts;
  for (const Total& total : recorder.totals()) {
    if (total.name == "attention") parts.attention = total.seconds, parts.attention_flops = total.flops;
    if (total.name == "linear") parts.linear = total.seconds, parts.linear_flops = total.flops;
  }
  parts.rest = seconds - parts.attention - parts.linear;
  return parts;
}

}  // namespace

void bench_train(const BenchOptions& options) {
  const train::RunConfig config = configuration(options);
  const train::StepNeed need = train::step_need(config);
  train::check_memory(config, need, train::available_memory());
  Threads threads(options.threads);
  train::Trainer trainer(config, threads);
  const std::string name =
      fmt::format("{} {}x{}, {} tokens", config.model.family, config.model.layers, config.model.width(), need.tokens);
  Bench bench("training, f32", threads);
  Recorder recorder;
  Parts parts;
  double best = 0;
  for (std::int64_t i = 0; i <= options.steps; ++i) {  // the first one fills the memory pool
    recorder.clear();
    const Timer timer;
    trainer.step([&] { return random_batch(config); }, &recorder);
    const double seconds = timer.seconds();
    if (i > 0 && (best == 0 || seconds < best)) {
      best = seconds;
      parts = split(recorder, seconds);
    }
  }
  const double peak_bytes =
      need.weights + need.gradients + need.optimizer + static_cast<double>(trainer.pool().peak_bytes());
  bench.add({.name = "train step " + name,
             .seconds = best,
             .flops = need.flops,
             .more = {{"peak_bytes", peak_bytes},
                      {"tokens_per_second", static_cast<double>(need.tokens) / best},
                      {"attention_share_of_flops", need.attention_flops / need.flops},
                      {"rest_share_of_step", parts.rest / best}}});
  bench.add({.name = "  attention, forward and backward", .seconds = parts.attention, .flops = parts.attention_flops});
  bench.add({.name = "  linear layers", .seconds = parts.linear, .flops = parts.linear_flops});
  bench.add({.name = fmt::format("  everything else: {:.1f} % of the step", 100 * parts.rest / best),
             .seconds = parts.rest,
             .more = {{"share_of_step", parts.rest / best}}});
  for (const Total& total : recorder.totals()) {
    if (total.name == "attention" || total.name == "linear" || total.seconds < 0.002 * best) continue;
    bench.add({.name = "    " + total.name, .seconds = total.seconds});
  }
  fmt::print("\n{:.2f} GB at most, {:.0f} tokens a second\n", peak_bytes / 1e9,
             static_cast<double>(need.tokens) / best);
  bench.finish(options.json);
}

}  // namespace reel::app
