// Moving samples on a page, without video files.
//
// A clip comes as the bytes of one PNG: its frames side by side from left to right, all of one size. The page shows one
// frame at a time and steps through them, over and over; pointing at a clip stops it. Small frames are enlarged by a
// whole number so that their pixels stay square and sharp.
#pragma once

#include <string>
#include <vector>

#include "reel/report/html.h"

namespace reel::report {

struct ClipStrip {
  std::string png;
  int frames = 1;
  int width = 0, height = 0;  // of one frame, in pixels
  double fps = 8;
  std::string caption;  // below the clip; may be empty
};

struct ClipRow {
  std::string label;  // "step 2,000"
  std::vector<ClipStrip> clips;
};

// Rows below each other, each under its label; clips as large as five in a row can be. They show the same frame at the
// same time, to be compared, and stop together: all have the same number of frames and the same speed, or one frame.
Html clip_rows(const std::vector<ClipRow>& rows);

// Sampled clips in labelled rows, real ones beside them (below on a phone). Either may be empty.
Html clip_grid(const std::vector<ClipRow>& sampled, const std::vector<ClipStrip>& real);

}  // namespace reel::report
