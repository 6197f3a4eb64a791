// Text conditioning without a text encoder: every word is a fixed random vector, and the model's text projection learns
// what it means.
//
// A word is a run of letters, digits and bytes above 127; ASCII letters are lower-cased. Its vector holds normal
// numbers of unit variance drawn from the word alone (Philox seeded with its FNV-1a hash), so it is the same in every
// run, on every machine, for every data set; a narrower vector is the beginning of a wider one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reel::data {

// FNV-1a, 64 bits: a hash that stays what it is, for everything that must not change with the library.
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::vector<std::string> words_of(std::string_view caption);

// out is [tokens][width]: a row for each word, cut to `tokens`, ended by zero rows.
void embed_words(std::string_view caption, std::int64_t tokens, std::int64_t width, std::span<float> out);

}  // namespace reel::data
