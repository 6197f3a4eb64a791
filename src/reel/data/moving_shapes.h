// Clips drawn in this process: one bright shape moves over a dark background. Small models learn them in minutes.
//
// A clip is drawn from (seed, index) alone: shape, motion, colour, background and start. Its label is shape and motion
// ("square right"), its caption the colour in front of it ("red square right"), left out in every third clip. The shape
// is about half as wide as the frame. It goes straight (what leaves on one side comes in on the other), to and fro, or
// around; a clip is exactly one turn, so it plays as an endless loop. Edges are anti-aliased.
#pragma once

#include <string>
#include <vector>

#include "reel/data/source.h"

namespace reel::data {

class MovingShapes final : public Source {
 public:
  MovingShapes(const DataConfig& config, const Format& wanted);  // three channels, at least 8 x 8 pixels

  std::int64_t size(Split split) const override;
  std::vector<std::string> labels() const override;

 private:
  void read_clip(Split split, std::int64_t index, Clip& out) override;

  std::uint64_t seed_;
  std::int64_t validation_;
};

}  // namespace reel::data
