// Shapes count in std::int64_t, memory in std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace reel {

constexpr std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }
template <class Enum>
requires std::is_enum_v<Enum>
constexpr std::size_t sized(Enum index) {  // of a table with an entry for each enumerator
  return static_cast<std::size_t>(index);
}

}  // namespace reel
