#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "reel/app/app.h"
#include "reel/app/traffic.h"
#include "reel/base/error.h"
#include "reel/base/progress.h"
#include "reel/base/sized.h"
#include "reel/comm/mpi.h"
#include "reel/data/gif.h"
#include "reel/data/png.h"
#include "reel/data/video_file.h"
#include "reel/files/safetensors.h"
#include "reel/train/sampling.h"
#include "reel/train/trained_run.h"

namespace reel::app {

namespace {

namespace fs = std::filesystem;

struct SampleOptions {
  std::string run, label, prompt, out = "clip.mp4", plan, traffic;
  std::int64_t steps = 30, count = 1, seed = 0;
  double guidance = -1;
  bool last = false, ancestral = false, dense = false;
  int threads = default_threads();
};

std::string caption_of(const SampleOptions& o, const data::Source& source) {
  if (!o.label.empty() && !o.prompt.empty()) throw Error("--label and --prompt were both given", "give one of them");
  if (o.label.empty()) return o.prompt;
  const std::vector<std::string> labels = source.labels();
  if (labels.empty()) throw Error("--label: the clips of this run have no labels", "describe the clip with --prompt");
  char* end = nullptr;
  const long number = std::strtol(o.label.c_str(), &end, 10);
  if (*end != '\0') return labels[sized(source.label_of(o.label))];
  if (number < 0 || number >= static_cast<long>(labels.size())) {
    throw Error(fmt::format("--label is {}", number),
                fmt::format("use 0 to {}: {}", labels.size() - 1, fmt::join(labels, ", ")));
  }
  return labels[sized(number)];
}

enum class Kind { kMp4, kGif, kPng, kTensor };

Kind kind_of(const std::string& path) {
  const std::string extension = fs::path(path).extension();
  if (extension == ".mp4") return Kind::kMp4;
  if (extension == ".gif") return Kind::kGif;
  if (extension == ".png") return Kind::kPng;
  if (extension == ".safetensors") return Kind::kTensor;
  throw Error(fmt::format("--out {}: unknown kind of file", path),
              "use .mp4, .gif, .png (contact sheet) or .safetensors");
}

void write(const SampleOptions& o, const train::RunConfig& config, const data::Format& format,
           std::span<const float> values) {
  const Kind kind = kind_of(o.out);
  const std::size_t each = format.values(), count = values.size() / each;
  if (kind == Kind::kTensor) {
    SafetensorsWriter writer;
    writer.add("sample",
               {static_cast<std::int64_t>(count), format.channels, format.frames, format.height, format.width}, values);
    return writer.write(o.out);
  }
  std::vector<std::vector<data::Image>> clips;
  for (std::size_t i = 0; i < count; ++i) clips.push_back(data::images_of(values.subspan(i * each, each), format));
  if (kind == Kind::kPng) {
    const std::int64_t scale = std::max<std::int64_t>(1, 64 / format.width);
    return data::write_png(o.out, data::contact_sheet(clips, scale));
  }
  std::vector<data::Image> frames;  // several clips play side by side
  for (std::int64_t t = 0; t < format.frames; ++t) {
    std::vector<data::Image> row;
    row.reserve(clips.size());
    for (const auto& clip : clips) row.push_back(clip[sized(t)]);
    frames.push_back(row.size() == 1 ? row[0] : data::contact_sheet({row}, 1, 1));
  }
  if (kind == Kind::kMp4) return data::write_mp4(o.out, frames, config.video.fps);
  data::write_gif(o.out, frames, config.video.fps);
}

void sample(const SampleOptions& o) {
  const Kind kind = kind_of(o.out);  // before minutes of work
  if (kind == Kind::kMp4 && !data::video_supported()) {
    throw Error("this build has no FFmpeg, so it cannot write mp4", "use --out clip.gif or clip.png");
  }
  comm::Session session;
  comm::Comm& world = session.world();
  const layout::Degrees plan = layout::parse_degrees(o.plan);
  parallel::Team team(world, plan);
  const layout::Cut cut = layout::cut_of_clips("--count", o.count, team.data().size());
  using Sparsity = train::OpenOptions::Sparsity;
  const train::TrainedRun run = train::open_run(
      o.run, {.averaged = !o.last, .sparsity = o.dense ? Sparsity::kOff : Sparsity::kAsTrained, .warn = warn});
  const train::RunConfig& config = run.config;
  model::check_plan(config.model, plan);
  world.shared().limit = config.parallel.wait_seconds;
  const std::string caption = caption_of(o, *run.source);
  const Buffer<float> text = caption.empty() ? train::null_text(*run.model, config) : run.source->text_of(caption);
  Buffer<float> texts(text.size() * sized(o.count));
  Buffer<float> clips = Buffer<float>::zeros(run.source->format().values() * sized(o.count));
  const bool held_out = run.source->size(data::Split::kValidation) > 0;
  for (std::int64_t i = 0; i < o.count; ++i) {
    std::copy(text.begin(), text.end(), texts.data() + sized(i) * text.size());
    data::Clip given;
    if (config.diffusion.conditioning_frames > 0 &&
        run.source->read(held_out ? data::Split::kValidation : data::Split::kTraining, i, given)) {
      std::copy(given.values.begin(), given.values.end(), clips.data() + sized(i) * given.values.size());
    }
  }
  Threads threads(o.threads);
  comm::poll_while_computing(threads, world);
  tape::Pool pool;
  if (run.sparsity != nullptr && world.rank() == 0) {
    run.sparsity->on_fallback = [told = false](std::int64_t, int layer) mutable {
      if (std::exchange(told, true)) return;
      warn(fmt::format("predicted scores of layer {} are not finite; it is dense for this pass", layer));
    };
  }
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("sample", o.steps);
  const auto first = sized(cut.begin(team.data().rank()));
  const auto own = sized(cut.size(team.data().rank()));
  const std::size_t each = clips.size() / sized(o.count);
  const std::span<float> own_clips = std::span<float>(clips).subspan(first * each, own * each);
  train::sample_clips(config, *run.model, pool, threads,
                      std::span<const float>(texts).subspan(first * text.size(), own * text.size()),
                      {.steps = o.steps,
                       .guidance = o.guidance >= 0 ? o.guidance : config.train.guidance,
                       .seed = static_cast<std::uint64_t>(o.seed),
                       .ancestral = o.ancestral,
                       .sparsity = run.sparsity.get(),
                       .team = &team,
                       .first_sample = static_cast<std::int64_t>(first),
                       .trained_steps = run.step,
                       .progress =
                           [&](std::int64_t step, std::int64_t) {
                             if (progress) progress->update(step);
                           }},
                      own_clips);
  std::vector<std::int64_t> bytes;
  bytes.reserve(sized(cut.parts()));
  for (int r = 0; r < cut.parts(); ++r) bytes.push_back(cut.size(r) * static_cast<std::int64_t>(each * sizeof(float)));
  team.data().all_gather_v(own_clips.data(), clips.data(), bytes);
  write_traffic(world, o.traffic);
  if (world.rank() != 0) return;
  progress->finish();
  write(o, config, run.source->format(), clips);
  fmt::print("{}: {} clip{} of {}{}, {} steps, {} weights of {}\n", o.out, o.count, o.count == 1 ? "" : "s",
             fs::canonical(o.run).filename().string(), caption.empty() ? "" : fmt::format(" \"{}\"", caption), o.steps,
             run.averaged ? "averaged" : "last", fs::path(run.checkpoint).filename().string());
}

}  // namespace

void add_sample(Verb& parser, Action& action) {
  auto options = std::make_shared<SampleOptions>();
  Verb* verb = parser.add_subcommand("sample", "makes clips with a trained model");
  verb->add_option("run", options->run, "folder of a training run")->required()->type_name("RUN");
  verb->add_option("--label", options->label, "number or name of a label of the data");
  verb->add_option("--prompt", options->prompt, "words; for latents: number of a clip or file whose text to take");
  verb->add_option("--steps", options->steps, "denoising steps")->between(1, 100000)->capture_default_str();
  verb->add_option("--guidance", options->guidance, "classifier-free guidance; default: train.guidance of the run")
      ->between(0.0, 100.0);
  verb->add_option("--seed", options->seed, "same seed, same clip")->not_negative()->capture_default_str();
  verb->add_option("--count", options->count, "clips, side by side")->between(1, 1024)->capture_default_str();
  verb->add_option("--out", options->out, "clip.mp4, .gif, .png (contact sheet) or .safetensors")
      ->to_write()
      ->capture_default_str();
  verb->add_flag("--dense", options->dense, "look at all keys, also with a model that was trained sparsely");
  verb->add_flag("--last", options->last, "the last weights, not their average");
  verb->add_flag("--ancestral", options->ancestral, "latte: draw with the learned variance instead of DDIM");
  verb->add_option("--parallel", options->plan, kParallelHelp)->type_name("PLAN");
  verb->add_option("--traffic", options->traffic, kTrafficHelp)->type_name("FILE.json")->to_write();
  verb->add_option("--threads", options->threads, "threads")->between(1, 1024);
  verb->callback([options, &action] { action = [options] { sample(*options); }; });
}

}  // namespace reel::app
