// Clips as animated GIF, played in an endless loop; shown by browsers and markdown viewers without a player.
//
// 256 colours for the whole clip, chosen by median cut; no dithering, which would flicker and make the file several
// times larger. A clip of no more than 256 colours, told apart by 6 bits a channel, keeps them.
#pragma once

#include <span>
#include <string>

#include "reel/data/image.h"

namespace reel::data {

// All frames have the same size, below 65536. fps above 50 plays at 50: the format counts in 1/100 s, and browsers slow
// down what is faster. scale 0: viewing_scale (image.h).
std::string gif_bytes(std::span<const Image> frames, double fps, std::int64_t scale = 0);
void write_gif(const std::string& path, std::span<const Image> frames, double fps, std::int64_t scale = 0);

}  // namespace reel::data
