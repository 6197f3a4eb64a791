#include "reel/base/random.h"

#include <cmath>
#include <numbers>

namespace reel {

namespace {

float to_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Two independent normal numbers from two words.
std::array<float, 2> box_muller(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(a) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

std::array<std::uint32_t, 4> Random::block(std::uint64_t number) const {
  std::uint32_t c0 = static_cast<std::uint32_t>(number), c1 = static_cast<std::uint32_t>(number >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream_), c3 = static_cast<std::uint32_t>(stream_ >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed_), k1 = static_cast<std::uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0, p1 = std::uint64_t{0xCD9E8D57} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0, c1 = static_cast<std::uint32_t>(p1), c2 = n2, c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t limit) const {
  const auto words = block(index);  // a block of its own: 64 bits make the bias of the product negligible
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * limit) >> 64);
}

float Random::uniform(std::uint64_t index) const { return to_unit(bits(index)); }

float Random::normal(std::uint64_t index) const {
  const auto words = block(index / 4);
  const std::size_t pair = index % 4 / 2 * 2;
  return box_muller(words[pair], words[pair + 1])[index % 2];
}

void Random::fill_uniform(std::span<float> out, std::uint64_t first) const {
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i == 0 || (first + i) % 4 == 0) words = block((first + i) / 4);
    out[i] = to_unit(words[(first + i) % 4]);
  }
}

void Random::fill_normal(std::span<float> out, std::uint64_t first) const {
  std::array<std::uint32_t, 4> words{};
  std::array<float, 2> pair{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = first + i;
    if (i == 0 || at % 4 == 0) words = block(at / 4);
    if (i == 0 || at % 2 == 0) pair = box_muller(words[at % 4 / 2 * 2], words[at % 4 / 2 * 2 + 1]);
    out[i] = pair[at % 2];
  }
}

}  // namespace reel
