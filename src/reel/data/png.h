// Pictures as PNG.
#pragma once

#include <string>

#include "reel/data/image.h"

namespace reel::data {

std::string png_bytes(const Image& image);                    // the whole file, for pages that carry their pictures
void write_png(const std::string& path, const Image& image);  // atomically (files/file.h)

}  // namespace reel::data
