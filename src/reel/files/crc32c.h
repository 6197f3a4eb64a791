// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected): the checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace reel::report {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace reel::report
