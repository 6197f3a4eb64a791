#include "reel/files/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace reel {
namespace {

constexpr std::size_t kFine = std::string_view::npos;

std::string encode(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
}

TEST(Utf8, EveryCharacterIsAcceptedSurrogatesAndBeyondAreNot) {
  for (std::uint32_t c = 0; c < 0x120000; ++c) {
    const bool valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    ASSERT_EQ(find_invalid_utf8(encode(c)), valid ? kFine : 0) << c;
    if (valid && c >= 0x80) {
      ASSERT_EQ(find_invalid_utf8(encode(c).substr(0, 1)), 0u) << c;
    }
  }
}

TEST(Utf8, NamesTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8(""), kFine);
  EXPECT_EQ(find_invalid_utf8("gr\xc3\xbcn"), kFine);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0u);      // overlong
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0u);  // overlong
  EXPECT_EQ(find_invalid_utf8("a\xe2\x82"), 1u);     // cut off
  EXPECT_EQ(find_invalid_utf8("a\xe2\x82q"), 1u);
}

}  // namespace
}  // namespace reel
