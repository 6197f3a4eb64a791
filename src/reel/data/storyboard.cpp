#include "reel/data/storyboard.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/data/draws.h"

namespace reel::data {

namespace {

constexpr std::uint64_t kStoryboardPurpose = 0x73746f7279;  // sets these random numbers apart from those of others
constexpr std::int64_t kOccluders = 3;

std::int64_t wrap(std::int64_t place, std::int64_t length) { return (place % length + length) % length; }

// Stream 0 of a clip says what is shown, stream 1 + i draws picture i. Clips are below 2^41, frames far below 2^22.
Random random_of(std::uint64_t seed, std::int64_t clip, std::int64_t stream) {
  return Random(seed ^ kStoryboardPurpose, static_cast<std::uint64_t>(clip | stream << 41));
}

// A place, in cells, that moves evenly.
struct Path {
  std::int64_t row, column, down, right;

  Path(Draws& draws, std::int64_t rows, std::int64_t columns, std::int64_t fastest)
      : row(draws.whole(0, rows - 1)),
        column(draws.whole(0, columns - 1)),
        down(draws.whole(-fastest, fastest)),
        right(draws.whole(-fastest, fastest)) {}
  std::int64_t row_at(std::int64_t frame) const { return row + frame * down; }
  std::int64_t column_at(std::int64_t frame) const { return column + frame * right; }
};

// A rectangle in front, with the part of another picture that it carries along.
struct Occluder {
  std::int64_t picture, from_row, from_column, rows, columns;
  Path path;
};

// A quarter to three eighths of the picture's side: three of them hide a quarter of it.
std::int64_t occluder_side(Draws& draws, std::int64_t side) {
  return draws.whole(std::max<std::int64_t>(1, side / 4), std::max<std::int64_t>(1, 3 * side / 8));
}

Occluder draw_occluder(Draws& draws, std::int64_t pictures, const Shown& shown) {
  const std::int64_t other = draws.whole(1, pictures - 1);
  return {.picture = (shown.picture + other) % pictures,
          .from_row = draws.whole(0, shown.rows - 1),
          .from_column = draws.whole(0, shown.columns - 1),
          .rows = occluder_side(draws, shown.rows),
          .columns = occluder_side(draws, shown.columns),
          .path = Path(draws, shown.rows, shown.columns, 1)};
}

void put_in_front(const Occluder& occluder, std::int64_t frame, Shown& shown) {
  for (std::int64_t r = 0; r < occluder.rows; ++r) {
    const std::int64_t row = wrap(occluder.path.row_at(frame) + r, shown.rows);
    for (std::int64_t c = 0; c < occluder.columns; ++c) {
      const std::int64_t column = wrap(occluder.path.column_at(frame) + c, shown.columns);
      shown.cells[sized((frame * shown.rows + row) * shown.columns + column)] = {
          occluder.picture, (occluder.from_row + r) % shown.rows, (occluder.from_column + c) % shown.columns};
    }
  }
}

}  // namespace

Storyboard::Storyboard(const DataConfig& config, const Format& wanted)
    : Source(wanted, true, {}),
      seed_(static_cast<std::uint64_t>(config.seed)),
      validation_(config.validation),
      style_(config.picture),
      camera_(config.motion == "camera") {
  if (wanted.channels != 3) {
    throw Error(fmt::format("storyboard clips are pixels: 3 channels, the model wants {}", wanted.channels),
                "change the model, or take data.source = \"latents\"");
  }
  if (wanted.frames < 4 || wanted.frames % 2 != 0) {
    throw Error(
        fmt::format("storyboard clips need an even number of frames, 4 or more, the model wants {}", wanted.frames),
        "one half are pictures, the other half shows one of them: video.frames = 8, for example");
  }
  const std::int64_t cell = style_.cell;
  if (wanted.height % cell != 0 || wanted.width % cell != 0) {
    const auto upwards = [&](std::int64_t size) { return (size + cell - 1) / cell * cell; };
    throw Error(fmt::format("storyboard: {} x {} pixels cannot be cut into cells of {} x {} (data.cell)", wanted.height,
                            wanted.width, cell, cell),
                fmt::format("use video.height = {} and video.width = {}, or another data.cell (the model's patch)",
                            upwards(wanted.height), upwards(wanted.width)));
  }
}

std::int64_t Storyboard::size(Split split) const { return split == Split::kTraining ? kEndless : validation_; }

std::vector<std::string> Storyboard::labels() const {
  std::vector<std::string> names;
  for (std::int64_t picture = 0; picture < format().frames / 2; ++picture)
    names.push_back(fmt::format("picture {}", picture));
  return names;
}

Shown Storyboard::shown(Split split, std::int64_t index) const {
  REEL_CHECK(index >= 0 && size(split) > 0);
  Draws draws(random_of(seed_, drawn_clip(split, index, validation_), 0));
  const std::int64_t pictures = format().frames / 2;
  Shown shown;
  shown.picture = draws.whole(0, pictures - 1);
  shown.rows = format().height / style_.cell;
  shown.columns = format().width / style_.cell;
  const Path camera(draws, shown.rows, shown.columns, camera_ ? 2 : 0);
  for (std::int64_t frame = 0; frame < pictures; ++frame) {
    for (std::int64_t row = 0; row < shown.rows; ++row) {
      for (std::int64_t column = 0; column < shown.columns; ++column) {
        shown.cells.push_back({shown.picture, wrap(row + camera.row_at(frame), shown.rows),
                               wrap(column + camera.column_at(frame), shown.columns)});
      }
    }
  }
  for (std::int64_t i = 0; camera_ && i < kOccluders; ++i) {
    const Occluder occluder = draw_occluder(draws, pictures, shown);
    for (std::int64_t frame = 0; frame < pictures; ++frame) put_in_front(occluder, frame, shown);
  }
  return shown;
}

void Storyboard::read_clip(Split split, std::int64_t index, Clip& out) {
  const Shown from = shown(split, index);
  out.label = static_cast<int>(from.picture);
  embed("storyboard", out);

  const std::int64_t frames = format().frames, height = format().height, width = format().width, cell = style_.cell;
  const std::int64_t pixels = height * width, clip = drawn_clip(split, index, validation_);
  Picture picture(height, width);
  for (std::int64_t frame = 0; frame < frames / 2; ++frame) {
    draw_picture(random_of(seed_, clip, 1 + frame), style_, picture);
    for (std::int64_t c = 0; c < 3; ++c)
      std::copy_n(picture.values.data() + c * pixels, pixels, out.values.data() + (c * frames + frame) * pixels);
  }
  for (std::int64_t c = 0; c < 3; ++c) {
    float* channel = out.values.data() + c * frames * pixels;
    for (std::int64_t frame = 0; frame < frames / 2; ++frame) {
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t column = 0; column < from.columns; ++column) {
          const Shown::Cell& source = from.at(frame, y / cell, column);
          std::copy_n(channel + (source.frame * height + source.row * cell + y % cell) * width + source.column * cell,
                      cell, channel + ((frames / 2 + frame) * height + y) * width + column * cell);
        }
      }
    }
  }
}

}  // namespace reel::data
