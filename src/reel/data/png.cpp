#include "reel/data/png.h"

#include <png.h>

#include "reel/base/error.h"
#include "reel/files/file.h"

namespace reel::data {

std::string png_bytes(const Image& image) {
  REEL_CHECK(image.height > 0 && image.width > 0);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr) == 0) {
    throw Error(fmt::format("cannot make a PNG of {} x {} pixels: {}", image.width, image.height, header.message),
                "make a smaller picture");
  }
  bytes.resize(size);
  return bytes;
}

void write_png(const std::string& path, const Image& image) { write_file_atomically(path, png_bytes(image)); }

}  // namespace reel::data
