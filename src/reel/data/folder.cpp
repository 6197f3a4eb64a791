#include "reel/data/folder.h"

#include <utility>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/data/video_file.h"
#include "reel/data/words.h"

namespace reel::data {

namespace {

constexpr std::uint64_t kFolderPurpose = 0x666f6c646572;  // sets these random numbers apart from those of others

}  // namespace

Folder::Folder(const DataConfig& config, const Format& wanted, Warn warn)
    : Source(wanted, true, std::move(warn)),
      fps_(config.fps),
      stride_(config.stride),
      seed_(static_cast<std::uint64_t>(config.seed)) {
  if (!video_supported()) read_video(config.path);  // throws what is missing
  if (wanted.channels != 3) {
    throw Error(fmt::format("video files give 3 channels of pixels, the model wants {}", wanted.channels),
                "change the model, or take data.source = \"latents\"");
  }
  list_ = list_videos(config.path);
  std::vector<std::string> names;
  for (const auto& entry : list_.entries) names.push_back(entry.name);
  held_ = hold_out(names, config.validation, config.path);
}

void Folder::read_clip(Split split, std::int64_t index, Clip& out) {
  const auto& clips = held_.of(split);
  const auto count = static_cast<std::int64_t>(clips.size());
  const auto& entry = list_.entries[sized(clips[sized(index % count)])];
  Excerpt cut;
  cut.frames = format().frames;
  cut.height = format().height;
  cut.width = format().width;
  cut.fps = fps_;
  cut.stride = stride_;
  // By name, so that a file is cut the same whichever others there are.
  const Random random(seed_ ^ kFolderPurpose ^ stable_hash(entry.name), static_cast<std::uint64_t>(index / count));
  cut.start = random.uniform(0);
  try {
    values_of(read_video(entry.path, cut).frames, out.values);
  } catch (const Error& error) {
    throw Error(entry.where + error.what(), error.hint());
  }
  out.label = entry.label;
  embed(entry.caption, out);
}

}  // namespace reel::data
