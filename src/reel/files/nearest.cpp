#include "reel/files/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <vector>

namespace reel {

namespace {

constexpr std::size_t kLongest = 256;  // longer words come from broken files; the distance takes length * length steps

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

// Optimal string alignment: Levenshtein's table plus the swap of neighbours, three rows kept.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, previous);
    std::swap(previous, row);
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = lower(a[i - 1]), y = lower(b[j - 1]);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x != y)});
      if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2])) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  const std::string* best = nullptr;
  int best_distance = std::numeric_limits<int>::max();
  if (word.size() > kLongest) return {};
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongest) continue;
    const std::size_t longer = std::max(word.size(), candidate.size());
    const std::size_t shorter = std::min(word.size(), candidate.size());
    if ((longer - shorter) * 3 > longer) continue;
    const int distance = edit_distance(word, candidate);
    if (distance * 3 <= static_cast<int>(longer) && distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string nearest_hint(std::string_view word, std::span<const std::string> known, std::string_view things) {
  const std::string near = nearest(word, known);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  if (known.empty()) return fmt::format("there are no {}", things);
  constexpr std::size_t kShown = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, known.size()); ++i) list += (i == 0 ? "" : ", ") + known[i];
  if (known.size() > kShown) list += fmt::format(" and {} more", known.size() - kShown);
  return fmt::format("known {}: {}", things, list);
}

}  // namespace reel
