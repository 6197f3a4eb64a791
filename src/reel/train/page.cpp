#include "reel/train/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reel/cost/machine.h"
#include "reel/data/png.h"
#include "reel/files/file.h"
#include "reel/files/folder.h"
#include "reel/kernels/cpu.h"
#include "reel/report/run_page.h"
#include "reel/train/sampling.h"
#include "reel/train/sparsity_figures.h"

namespace reel::train {

namespace {

namespace fs = std::filesystem;

data::Image strip(std::span<const float> values, const data::Format& format) {
  return data::contact_sheet({data::images_of(values, format)}, 1, 0);
}

// Held-out clips 0, 1, ...: what is sampled has their texts, and the page shows both side by side.
std::vector<data::Clip> held_out(data::Source& source, std::int64_t count) {
  std::vector<data::Clip> clips;
  for (std::int64_t i = 0; i < std::min(count, source.size(data::Split::kValidation)); ++i) {
    data::Clip clip;
    if (source.read(data::Split::kValidation, i, clip)) clips.push_back(std::move(clip));
  }
  return clips;
}

report::Sample shown(const RunConfig& c, std::string png, const std::string& caption) {
  report::Sample sample;
  sample.clip = {.png = std::move(png),
                 .frames = static_cast<int>(c.video.frames),
                 .width = static_cast<int>(c.video.width),
                 .height = static_cast<int>(c.video.height),
                 .fps = c.video.fps,
                 .caption = caption};
  return sample;
}

std::vector<report::Sample> all_samples(const std::string& run, const RunConfig& c, data::Source& source) {
  const std::vector<data::Clip> clips = held_out(source, c.train.samples);
  std::vector<report::Sample> samples;
  for (const data::Clip& clip : clips) {
    samples.push_back(shown(c, data::png_bytes(strip(clip.values, source.format())), clip.caption));
    samples.back().real = true;
  }
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(run + "/samples", error)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    long long step = 0;
    unsigned index = 0;
    if (std::sscanf(file.filename().c_str(), "step-%lld-%u.png", &step, &index) != 2) continue;
    samples.push_back(shown(c, read_file(file), index < clips.size() ? clips[index].caption : ""));
    samples.back().step = step;
  }
  return samples;
}

std::string millions(std::int64_t count) { return fmt::format("{:.1f} million", static_cast<double>(count) / 1e6); }

}  // namespace

void write_samples(const std::string& run, Trainer& trainer, data::Source& source) {
  const RunConfig& c = trainer.config();
  const std::vector<data::Clip> clips = held_out(source, c.train.samples);
  if (clips.empty()) return;
  const std::size_t text = source.format().text_values(), each = source.format().values();
  Buffer<float> texts(text * clips.size()), values(each * clips.size());
  for (std::size_t i = 0; i < clips.size(); ++i) {
    std::copy_n(clips[i].text.data(), text, texts.data() + i * text);
    std::copy_n(clips[i].values.data(), each, values.data() + i * each);  // conditioning frames are taken from it
  }
  trainer.with_average([&] {
    tape::Pool pool;
    sample_clips(c, trainer.model(), pool, trainer.threads(), texts,
                 {.steps = c.train.sample_steps,
                  .guidance = c.train.guidance,
                  .seed = static_cast<std::uint64_t>(c.train.seed),
                  .sparsity = trainer.sparsity(),
                  .team = trainer.team(),
                  .trained_steps = trainer.steps_done()},
                 values);
  });
  if (!trainer.root()) return;
  make_folder(run + "/samples");
  for (std::size_t i = 0; i < clips.size(); ++i) {
    data::write_png(fmt::format("{}/samples/step-{:06}-{}.png", run, trainer.steps_done(), i),
                    strip(std::span<const float>(values).subspan(i * each, each), source.format()));
  }
}

void write_page(const std::string& run, Trainer& trainer, data::Source& source, const RunState& state,
                const StepNeed& need) {
  const RunConfig& c = trainer.config();
  const model::ModelConfig& m = c.model;
  report::RunSummary page;
  page.title = fs::canonical(run).filename().string();  // also of RUN/ and of .
  page.subtitle = fmt::format("{} of {} steps", state.step, c.train.steps);
  page.planned_steps = c.train.steps;
  page.wall_seconds = state.wall_seconds;
  page.model = {
      {"family", m.family},
      {"parameters", millions(trainer.model().parameters().count())},
      {"layers, width, heads", fmt::format("{}, {}, {}", m.layers, m.width(), m.heads)},
      {"clip", fmt::format("{} x {} x {}, {} channels", c.video.frames, c.video.height, c.video.width, m.channels)},
      {"tokens of a step", fmt::format("{}", need.tokens)},
      {"data", c.data.source},
      {"self-attention in the arithmetic", fmt::format("{:.0f} %", 100 * need.self_attention_share())}};
  const cost::Machine machine = cost::describe_this_machine();
  page.machine = {{"CPU", machine.cpu},
                  {"instructions", kernels::target()},
                  {"threads", fmt::format("{}", trainer.threads().count())}};
  page.configuration = c.text;
  page.rows = report::read_metrics(run + "/metrics.jsonl").rows;
  page.memory = {{"weights", need.weights},
                 {"gradients", need.gradients},
                 {"optimizer", need.optimizer},
                 {"activations", static_cast<double>(trainer.pool().peak_bytes())}};
  for (const report::MemoryPart& part : page.memory) page.peak_memory += part.bytes;
  page.samples = all_samples(run, c, source);
  page.skipped_steps = state.skipped;
  if (source.skipped() > 0)
    page.warnings.push_back(fmt::format("{} clips or files could not be read and were left out", source.skipped()));
  if (trainer.sparsity() != nullptr) page.sparsity = sparsity_summary(run, trainer, source, need);
  report::write_run_page(page, run + "/report.html");
}

}  // namespace reel::train
