// Clips from video files (video_list.h says which, video_file.h how they are read).
//
// A clip is data.stride frames apart at data.fps, scaled to cover the frame and cut to its centre. Where it begins is
// drawn from (seed, file, epoch). A file that cannot be read, or is too short, is skipped with a warning.
#pragma once

#include <string>
#include <vector>

#include "reel/data/source.h"
#include "reel/data/video_list.h"

namespace reel::data {

class Folder final : public Source {
 public:
  Folder(const DataConfig& config, const Format& wanted, Warn warn);  // three channels

  std::int64_t size(Split split) const override { return static_cast<std::int64_t>(held_.of(split).size()); }
  std::vector<std::string> labels() const override { return list_.labels; }

 private:
  void read_clip(Split split, std::int64_t index, Clip& out) override;

  double fps_;
  std::int64_t stride_;
  std::uint64_t seed_;
  VideoList list_;
  Held held_;
};

}  // namespace reel::data
