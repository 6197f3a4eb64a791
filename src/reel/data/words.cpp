#include "reel/data/words.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::data {

namespace {

bool belongs_to_word(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c > 127;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::vector<std::string> words_of(std::string_view caption) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : caption) {
    const bool belongs = belongs_to_word(static_cast<unsigned char>(c));
    if (belongs && !inside) words.emplace_back();
    if (belongs) words.back() += lower(c);
    inside = belongs;
  }
  return words;
}

void embed_words(std::string_view caption, std::int64_t tokens, std::int64_t width, std::span<float> out) {
  REEL_CHECK(out.size() == sized(tokens * width));
  const std::vector<std::string> words = words_of(caption);
  const std::size_t row = sized(width);
  for (std::size_t token = 0; token < sized(tokens); ++token) {
    const std::span<float> vector = out.subspan(token * row, row);
    if (token < words.size()) {
      Random(stable_hash(words[token])).fill_normal(vector);
    } else {
      std::fill(vector.begin(), vector.end(), 0.0f);
    }
  }
}

}  // namespace reel::data
