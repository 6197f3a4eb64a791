// Shapes count in std::int64_t, memory in std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reel {

constexpr std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace reel
