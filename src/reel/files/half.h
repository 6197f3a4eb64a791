// The short float formats of weight files, to and from f32. They exist in files only; in memory everything is f32.
//
// Encoding rounds to nearest, ties to even; what is too large becomes infinity. A NaN stays a NaN, and decoding and
// encoding again gives the same 16 bits for every value. No hardware conversion is used: F16C and AVX512-BF16 treat
// subnormal numbers by the mode of the CPU, and these loops wait for the disk anyway.
//
//   bf16      sign, 8 exponent bits, 7 mantissa bits: the upper half of an f32
//   f16       sign, 5 exponent bits (bias 15), 10 mantissa bits
//   f8_e5m2   the upper half of an f16
//   f8_e4m3   bias 7, no infinity, NaN is 0x7f and 0xff ("e4m3fn"); largest value 448
#pragma once

#include <bit>
#include <cstdint>

namespace reel {

inline float f32_from_bf16(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }

inline std::uint16_t bf16_from_f32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {  // NaN: rounding could carry it to infinity, cutting could as well
    const std::uint32_t upper = bits >> 16;
    return static_cast<std::uint16_t>((upper & 0x7f) != 0 ? upper : upper | 0x40);
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float f32_from_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude < 0x0400) {  // subnormal: a multiple of 2^-24, always a normal f32
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    return std::bit_cast<float>(sign | bits);
  }
  const std::uint32_t exponent_shift = magnitude >= 0x7c00 ? (255u - 31u) << 23 : (127u - 15u) << 23;
  return std::bit_cast<float>(sign | ((magnitude << 13) + exponent_shift));
}

inline std::uint16_t f16_from_f32(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000) {  // NaN, with as much of its payload as fits
    const std::uint32_t payload = (magnitude >> 13) & 0x3ff;
    half = 0x7c00 | (payload != 0 ? payload : 0x200);
  } else if (magnitude >= 0x477ff000) {  // 65520 and more are nearer to 65536 than to the largest f16, 65504
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal f16
    half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude > 0x33000000) {  // above 2^-25: a subnormal f16, in units of 2^-24
    const std::uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const std::uint32_t shift = 126 - (magnitude >> 23);
    half = (mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float f32_from_f8_e5m2(std::uint8_t byte) { return f32_from_f16(static_cast<std::uint16_t>(byte << 8)); }

inline float f32_from_f8_e4m3(std::uint8_t byte) {
  const std::uint32_t sign = std::uint32_t{byte & 0x80u} << 24;
  const std::uint32_t magnitude = byte & 0x7fu;
  std::uint32_t bits = 0;
  if (magnitude == 0x7f) {
    bits = 0x7fc00000;
  } else if (magnitude < 0x08) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
  } else {
    bits = (magnitude << 20) + ((127u - 7u) << 23);
  }
  return std::bit_cast<float>(sign | bits);
}

}  // namespace reel
