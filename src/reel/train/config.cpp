#include "reel/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reel/base/error.h"
#include "reel/files/safetensors.h"
#include "reel/model/family.h"
#include "reel/model/folder.h"

namespace reel::train {

namespace {

namespace fs = std::filesystem;

// Shapes of the first shard of a folder of latents: {channels, frames, height, width}, {tokens, width}.
struct LatentShapes {
  std::vector<std::int64_t> latents, text;
};

// The first that can be read: damaged ones are skipped here as they are in training.
SafetensorsFile first_whole(std::vector<std::string> files) {
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    try {
      return SafetensorsFile::open(files[i]);
    } catch (const Error&) {
    }
  }
  return SafetensorsFile::open(files.back());
}

LatentShapes look_at_latents(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (files.empty()) {
    throw Error(
        fmt::format("{}: no .safetensors file", folder.empty() ? "data.path" : folder),
        "data.path must be a folder of latents: tensors `latents` [n, channels, frames, height, width] and `text`");
  }
  const SafetensorsFile file = first_whole(files);
  LatentShapes shapes{file.info("latents").shape, {}};
  if (file.contains("text")) shapes.text = file.info("text").shape;
  const auto last = [](std::vector<std::int64_t>& shape, std::size_t count) {
    if (shape.size() > count) shape.erase(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count));
  };
  last(shapes.latents, 4);
  last(shapes.text, 2);
  if (shapes.latents.size() != 4) throw Error(fmt::format("{}: latents must have 4 or 5 axes", file.name()), "");
  return shapes;
}

template <class T>
void fill_in(T& value, T found) {
  if (value == 0) value = found;
}

// What the file leaves open follows from the data.
void complete(RunConfig& c) {
  std::int64_t channels = 3;
  c.text_tokens = c.model.text_tokens > 0 ? c.model.text_tokens : 4;
  c.text_width = c.model.text_width > 0 ? c.model.text_width : 64;
  // A run file that says it all can be read (and its memory counted) where its data is not.
  const bool open = c.model.channels == 0 || c.model.text_width == 0 || c.model.text_tokens == 0;
  if (c.data.source == "latents" && open) {
    const LatentShapes shapes = look_at_latents(c.data.path);
    channels = shapes.latents[0];
    if (shapes.text.size() == 2) {
      c.text_tokens = c.model.text_tokens > 0 ? c.model.text_tokens : shapes.text[0];
      c.text_width = shapes.text[1];
    }
  }
  fill_in(c.model.channels, channels);
  fill_in(c.model.text_width, c.text_width);
  fill_in(c.model.text_tokens, c.text_tokens);
  if (model::family_of(c.model).knows_length) c.model.frames = c.video.frames;
}

void check_whole(const RunConfig& c, const Toml& toml) {
  const std::int64_t sizes[] = {c.video.frames, c.video.height, c.video.width};
  const char* names[] = {"frames", "height", "width"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (sizes[i] % c.model.patch[i] == 0) continue;
    const std::string key = fmt::format("video.{}", names[i]);
    const std::int64_t below = sizes[i] / c.model.patch[i] * c.model.patch[i];
    throw Error(
        fmt::format("{}: {} = {} is not a multiple of the patch, {}", toml.where(key), key, sizes[i], c.model.patch[i]),
        fmt::format("use {}{}, or another model.patch", below > 0 ? fmt::format("{} or ", below) : "",
                    below + c.model.patch[i]));
  }
  if (c.diffusion.conditioning_frames >= c.video.frames) {
    throw Error(
        fmt::format("{}: diffusion.conditioning_frames = {} of {} frames", toml.where("diffusion.conditioning_frames"),
                    c.diffusion.conditioning_frames, c.video.frames),
        "leave at least one frame to predict");
  }
  if (c.diffusion.conditioning_frames % c.model.patch[0] != 0) {
    throw Error(
        fmt::format("{}: diffusion.conditioning_frames = {} cuts a patch of {} frames",
                    toml.where("diffusion.conditioning_frames"), c.diffusion.conditioning_frames, c.model.patch[0]),
        "use a multiple of model.patch[0]");
  }
}

void check_sparsity(const RunConfig& c, const Toml& toml) {
  const sparsity::SparsityConfig& s = c.sparsity;
  const auto refuse = [&](const std::string& key, const std::string& what, const std::string& hint) {
    throw Error(fmt::format("{}: {}: {}", toml.where(key), key, what), hint);
  };
  if (s.on() && !model::family_of(c.model).full_attention) {
    refuse("sparsity.mode", fmt::format("the family {} has no full 3-D attention to make sparse", c.model.family),
           fmt::format("use model.family = {}, or sparsity.mode = \"off\"", model::names_of_families(true)));
  }
  if (std::any_of(s.group.begin(), s.group.end(), [](std::int64_t n) { return n < 1 || n > 64; }) ||
      s.group[0] * s.group[1] * s.group[2] > 1024) {
    refuse("sparsity.group", "a group has 1 to 1024 tokens", "use [4, 4, 4]");
  }
  if (!s.layer_keys.empty() && static_cast<std::int64_t>(s.layer_keys.size()) != c.model.layers) {
    refuse("sparsity.layer_keys", fmt::format("{} shares for {} layers", s.layer_keys.size(), c.model.layers),
           "give one for each layer");
  }
  for (const double share : s.layer_keys) {
    if (!(share > 0 && share <= 1))
      refuse("sparsity.layer_keys", fmt::format("{} is not a share", share), "use 0 to 1; 1: all keys");
  }
  for (const std::int64_t layer : s.dense_layers) {
    if (layer < 0 || layer >= c.model.layers)
      refuse("sparsity.dense_layers", fmt::format("there is no layer {}", layer),
             fmt::format("layers are 0 to {}", c.model.layers - 1));
  }
  for (const std::int64_t frame : s.keep) {
    if (frame < 0 || frame >= c.video.frames / c.model.patch[0])
      refuse("sparsity.keep", fmt::format("there is no frame {} of tokens", frame),
             fmt::format("frames are 0 to {}", c.video.frames / c.model.patch[0] - 1));
  }
}

void check_storyboard(const RunConfig& c, const Toml& toml) {
  if (c.data.source != "storyboard" || c.diffusion.conditioning_frames == c.video.frames / 2) return;
  throw Error(
      fmt::format("{}: diffusion.conditioning_frames = {}, but the pictures of a storyboard are the first half of "
                  "{} frames",
                  toml.where("diffusion.conditioning_frames"), c.diffusion.conditioning_frames, c.video.frames),
      fmt::format("use diffusion.conditioning_frames = {}", c.video.frames / 2));
}

void check_parallel(const RunConfig& c, const Toml& toml) {
  try {
    model::check_plan(c.model, c.parallel.plan);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: parallel.plan: {}", toml.where("parallel.plan"), error.what()), error.hint());
  }
}

}  // namespace

data::Format format_of(const RunConfig& c) {
  return {c.model.channels, c.video.frames, c.video.height, c.video.width, c.text_tokens, c.text_width};
}

layout::Cut clips_of(const RunConfig& c, int groups) {
  return layout::cut_of_clips("train.batch", c.train.batch, groups);
}

void visit(Settings& s, RunConfig& c) {
  model::visit(s, c.model);
  s.section("video", "what the model sees, in pixels or latents");
  s.integer("video.frames", c.video.frames, 1, 1 << 20, "frames of a clip");
  s.integer("video.height", c.video.height, 1, 1 << 20, "rows");
  s.integer("video.width", c.video.width, 1, 1 << 20, "columns");
  s.number("video.fps", c.video.fps, 0.1, 1000, "frames a second when clips are shown; stdit3 is told");
  data::visit(s, c.data);
  diffusion::visit(s, c.diffusion);
  sparsity::visit(s, c.sparsity);
  TrainConfig& t = c.train;
  s.section("train", "the loop");
  s.integer("train.steps", t.steps, 1, Settings::kMany, "optimizer steps");
  s.integer("train.batch", t.batch, 1, 1 << 20, "clips in a pass");
  s.integer("train.accumulate", t.accumulate, 1, 1 << 20, "passes whose gradients are added before a step");
  optim::visit(s, c.optim);
  s.integer("train.seed", t.seed, 0, Settings::kMany, "of noise, timesteps and the order of clips");
  s.integer("train.threads", t.threads, 0, 1024, "0: as many as there are cores; results do not depend on it");
  s.boolean("train.recompute", t.recompute, "run blocks again in backward: less memory, a third more time");
  s.integer("train.checkpoint_every", t.checkpoint_every, 0, Settings::kMany, "steps; 0: only at the end");
  s.integer("train.keep", t.keep, 1, 1 << 20, "checkpoints to keep");
  s.integer("train.validate_every", t.validate_every, 0, Settings::kMany, "steps; 0: never");
  s.integer("train.sample_every", t.sample_every, 0, Settings::kMany, "steps; 0: only at the end");
  s.integer("train.samples", t.samples, 0, 64, "clips to sample each time");
  s.integer("train.sample_steps", t.sample_steps, 1, 10000, "denoising steps for them");
  s.number("train.guidance", t.guidance, 0, 100, "classifier-free guidance for them; 1: none");
  s.string("train.start_from", t.start_from, "a model folder (diffusers form) whose weights to begin with");
  s.section("parallel", "many ranks (docs/parallel.md)");
  layout::visit_degrees(
      s, "parallel.plan", c.parallel.plan,
      "how ranks share a clip: \"dsp=4\", \"ulysses=2,ring=4\", ...; ranks beyond that share the batch");
  s.number("parallel.wait_seconds", c.parallel.wait_seconds, 0.1, 1e9,
           "how long a rank waits for another before the run stops");
}

RunConfig parse_run(const Toml& toml, const std::string& checkpoint) {
  RunConfig c;
  // A model that is trained further is described by its own folder; the run file need not say it again.
  if (const std::string start = toml.string("train.start_from", ""); !start.empty()) {
    const std::string& folder = checkpoint.empty() ? start : checkpoint;
    if (fs::exists(folder + "/config.json")) c.model = model::load_config(folder);
  }
  Settings settings(toml);
  visit(settings, c);
  toml.check_all_used();
  complete(c);
  model::check(c.model);
  check_whole(c, toml);
  check_sparsity(c, toml);
  check_storyboard(c, toml);
  check_parallel(c, toml);
  c.text = toml.text();
  return c;
}

RunConfig load_run(const std::string& path, const std::vector<std::string>& overrides, const std::string& checkpoint) {
  Toml toml = Toml::load(path);
  for (const std::string& each : overrides) toml.set(each);
  return parse_run(toml, checkpoint);
}

}  // namespace reel::train
