#include "reel/files/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reel {
namespace {

// The value that sign, exponent and mantissa mean, computed the slow way. `infinities`: the top exponent is inf and
// NaN.
double meaning(unsigned bits, int exponent_bits, int mantissa_bits, bool infinities) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  if (infinities && exponent == top) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

void expect_same(double expected, float value, unsigned bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << bits;
  } else {
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

TEST(Half, EveryValueMeansWhatItsBitsSay) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    expect_same(meaning(bits, 5, 10, true), f32_from_f16(half), bits);
    expect_same(meaning(bits, 8, 7, true), f32_from_bf16(half), bits);
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    expect_same(meaning(bits, 5, 2, true), f32_from_f8_e5m2(byte), bits);
    const bool nan = (bits & 0x7f) == 0x7f;
    const double expected = nan ? std::numeric_limits<double>::quiet_NaN() : meaning(bits, 4, 3, false);
    expect_same(expected, f32_from_f8_e4m3(byte), bits);
  }
  EXPECT_EQ(f32_from_f8_e4m3(0x7e), 448.0f);
}

TEST(Half, DecodingAndEncodingGivesTheSameBitsNanIncluded) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(f16_from_f32(f32_from_f16(half)), half);
    EXPECT_EQ(bf16_from_f32(f32_from_bf16(half)), half);
  }
}

// Between each value and the next: the middle goes to the even one, the f32 numbers beside the middle to their side.
template <class Decode, class Encode>
void expect_nearest_even(unsigned infinity, double beyond_largest, Decode decode, Encode encode) {
  for (unsigned sign : {0u, 0x8000u}) {
    for (unsigned bits = 0; bits < infinity; ++bits) {
      const auto low = static_cast<std::uint16_t>(sign | bits), high = static_cast<std::uint16_t>(sign | (bits + 1));
      const double next = bits + 1 == infinity ? std::copysign(beyond_largest, decode(low)) : double{decode(high)};
      const float middle = static_cast<float>((double{decode(low)} + next) / 2);
      ASSERT_EQ(middle, (double{decode(low)} + next) / 2) << bits;  // the middle is an f32
      EXPECT_EQ(encode(middle), bits % 2 == 0 ? low : high) << bits;
      EXPECT_EQ(encode(std::nextafter(middle, 0.0f)), low) << bits;
      EXPECT_EQ(encode(std::nextafter(middle, std::copysign(INFINITY, middle))), high) << bits;
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  expect_nearest_even(0x7c00, 65536.0, f32_from_f16, f16_from_f32);
  expect_nearest_even(0x7f80, 0x1p128, f32_from_bf16, bf16_from_f32);
}

TEST(Half, NanWithALowPayloadDoesNotBecomeInfinity) {
  const float nan = std::bit_cast<float>(0x7f800001u), negative = std::bit_cast<float>(0xff800001u);
  EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(nan))));
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(nan))));
  EXPECT_EQ(f16_from_f32(negative), 0xfe00);
  EXPECT_EQ(bf16_from_f32(negative), 0xffc0);
}

}  // namespace
}  // namespace reel
