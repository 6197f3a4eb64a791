#include "reel/data/source.h"

#include <algorithm>
#include <utility>

#include "reel/base/error.h"
#include "reel/data/folder.h"
#include "reel/data/latents.h"
#include "reel/data/moving_shapes.h"
#include "reel/data/storyboard.h"
#include "reel/data/words.h"
#include "reel/files/nearest.h"

namespace reel::data {

void visit(Settings& s, DataConfig& c) {
  s.section("data", "the clips");
  s.choice("data.source", c.source, {"moving-shapes", "storyboard", "folder", "latents"},
           "drawn here (the first two), video files, or cached latents");
  s.string("data.path", c.path, "folder: a folder of videos or a CSV file (path,text,label); latents: a folder");
  s.number("data.fps", c.fps, 0, 1000, "folder: frames a second; 0: those of the file");
  s.integer("data.stride", c.stride, 1, 1000, "folder: takes every n-th of these frames");
  s.integer("data.validation", c.validation, 0, 1 << 20, "clips held out of training");
  s.integer("data.seed", c.seed, 0, Settings::kMany, "of what is drawn, where videos are cut, and the order");
  s.integer("data.cell", c.picture.cell, 1, 1024, "storyboard: pixels by which things move; the model's patch");
  s.choice("data.drawn", c.picture.drawn, {"shapes", "icons"},
           "storyboard: a few large shapes over a pattern, or many small drawings");
  s.number("data.texture", c.picture.texture, 0, 1,
           "storyboard: random share of the variance; 0: drawn, 1: pure noise");
  s.number("data.coarse", c.picture.coarse, 0, 1,
           "storyboard: share of the random variance that 4 x 4 cells have in common");
  s.choice("data.motion", c.motion, {"static", "camera"},
           "storyboard: a still shot, or a moving one with things passing in front");
}

bool Source::read(Split split, std::int64_t index, Clip& out) {
  REEL_CHECK(index >= 0 && size(split) > 0);
  out.fit(format_);
  try {
    read_clip(split, index, out);
    return true;
  } catch (const Error& error) {
    // Broken is not remembered but found out anew in each epoch: another cut may be sound, and whether it is must not
    // depend on what was read before, or a resumed run would see other clips.
    const std::lock_guard lock(mutex_);
    if (broken_.emplace(split, index % size(split)).second && warn_) {
      warn_(fmt::format("skipping a clip: {}", error.what()));
    }
    return false;
  }
}

std::int64_t Source::skipped() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(broken_.size()) + broken_files_;
}

void Source::skip_file(const Error& why) {
  const std::lock_guard lock(mutex_);
  ++broken_files_;
  if (warn_) warn_(fmt::format("skipping a file: {}", why.what()));
}

int Source::label_of(const std::string& name) const {
  const std::vector<std::string> all = labels();
  const auto found = std::find(all.begin(), all.end(), name);
  if (found == all.end()) {
    throw Error(fmt::format("there is no label '{}'", name),
                all.empty() ? "these clips have no labels" : nearest_hint(name, all, "labels"));
  }
  return static_cast<int>(found - all.begin());
}

Buffer<float> Source::text_of(const std::string& caption) const {
  Buffer<float> text(format_.text_values());
  embed_words(caption, format_.text_tokens, format_.text_width, text);
  return text;
}

void Source::embed(const std::string& caption, Clip& out) const {
  out.caption = caption;
  embed_words(caption, format_.text_tokens, format_.text_width, out.text);
}

std::unique_ptr<Source> make_source(const DataConfig& config, const Format& wanted, Warn warn) {
  for (const std::int64_t size : {wanted.channels, wanted.frames, wanted.height, wanted.width}) {
    if (size < 1) throw Error("clips need at least one channel, frame, row and column", "check the sizes of the model");
  }
  if (config.source == "moving-shapes") return std::make_unique<MovingShapes>(config, wanted);
  if (config.source == "storyboard") return std::make_unique<Storyboard>(config, wanted);
  if (config.path.empty()) {
    throw Error(fmt::format("data.source = \"{}\" needs data.path", config.source), "name a folder (or a CSV file)");
  }
  if (config.source == "folder") return std::make_unique<Folder>(config, wanted, std::move(warn));
  REEL_CHECK(config.source == "latents");
  return std::make_unique<Latents>(config, wanted, std::move(warn));
}

}  // namespace reel::data
