// Clips that cannot be made without looking: half of the frames are pictures, the other half shows one of them again,
// somewhere else. Meant for diffusion.conditioning_frames = video.frames / 2.
//
// What a cell of the second half holds is found only by comparing contents with all pictures: which picture and which
// place in it differ from clip to clip. So a method that chooses keys can be told from one that only seems to: in small
// PyTorch models trained on such clips of pure texture, a tenth of the keys chosen at random, nearby, or the same for
// all clips gave five to ten times the loss of all keys; the best tenth gave 1.07 times.
//
//   frames 0 ... T/2 - 1     different pictures (storyboard_picture.h), whole and at rest
//   frames T/2 ... T - 1     one of them, rolled: what leaves on one side comes in on the other
//     data.motion = "static"   by an offset that all these frames share
//     data.motion = "camera"   the offset grows by -2 to 2 rows and columns a frame, the same in all frames; three
//                              rectangles cut from other pictures pass in front, by -1 to 1 rows and columns a frame
//
// Everything moves by whole cells, data.cell x data.cell pixels: with cells as large as the model's patches every token
// of the second half equals one of the first. Pictures and offsets are drawn from (seed, index) alone.
//
// The label says which picture is shown ("picture 2"). The caption is "storyboard" for every clip: a text that named
// the picture would spare the model a part of the search that these clips are there to ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reel/base/sized.h"
#include "reel/data/source.h"

namespace reel::data {

// Where every cell of the second half comes from.
struct Shown {
  struct Cell {
    std::int64_t frame, row, column;  // of a picture; row and column count cells
    bool operator==(const Cell&) const = default;
  };

  std::int64_t picture = 0;  // the one that is shown; a cell of another one is a rectangle in front of it
  std::int64_t rows = 0, columns = 0;
  std::vector<Cell> cells;  // [T/2][rows][columns]

  const Cell& at(std::int64_t frame, std::int64_t row, std::int64_t column) const {  // frame 0 is frame T/2 of the clip
    return cells[sized((frame * rows + row) * columns + column)];
  }
};

class Storyboard final : public Source {
 public:
  // Three channels, an even number of frames from 4 on, sizes that are multiples of the cell.
  Storyboard(const DataConfig& config, const Format& wanted);

  std::int64_t size(Split split) const override;
  std::vector<std::string> labels() const override;

  Shown shown(Split split, std::int64_t index) const;

 private:
  void read_clip(Split split, std::int64_t index, Clip& out) override;

  std::uint64_t seed_;
  std::int64_t validation_;
  PictureStyle style_;
  bool camera_;
};

}  // namespace reel::data
