#include "reel/layout/degrees.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>
#include <vector>

#include "reel/base/error.h"

namespace reel::layout {

namespace {

constexpr int kMostRanks = 1 << 20;
constexpr const char* kWays =
    "use \"dsp=4\", \"ulysses=4\", \"ulysses-both=4\", \"ring=4\", \"gather=4\", \"ulysses=2,ring=2\" or "
    "\"ulysses=2,gather=2\"; degrees are 1 or more";

using Parts = std::vector<std::pair<std::string, int>>;  // name, degree; in the order in which they are written

Parts parts_of(const Degrees& d) {
  if (d.automatic) return {{"auto", 1}};
  Parts all = {
      {"dsp", d.dsp}, {d.both ? "ulysses-both" : "ulysses", d.ulysses}, {"ring", d.ring}, {"gather", d.gather}};
  std::erase_if(all, [](const auto& part) { return part.second == 1; });
  if (d.keys_inside) std::reverse(all.begin(), all.end());
  return all;
}

// What is written, but for degrees of 1.
Parts read_parts(const std::string& text) {
  constexpr const char* kNames[] = {"dsp", "ulysses", "ulysses-both", "ring", "gather"};
  Parts parts;
  std::vector<std::string> seen;
  int ranks = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at), name = part.substr(0, part.find('='));
    int degree = 0;
    if (name.size() < part.size()) {
      const char *first = part.data() + name.size() + 1, *last = part.data() + part.size();
      if (const auto [stop, error] = std::from_chars(first, last, degree); error != std::errc() || stop != last)
        degree = 0;
    }
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames) || degree < 1 ||
        degree > kMostRanks / ranks || std::find(seen.begin(), seen.end(), name) != seen.end() ||
        end + 1 == text.size()) {
      throw Error(fmt::format("cannot read the plan \"{}\" at \"{}\"", text, part), kWays);
    }
    seen.push_back(name);
    ranks *= degree;
    if (degree > 1) parts.emplace_back(name, degree);
    at = end + 1;
  }
  return parts;
}

}  // namespace

std::string Degrees::text() const {
  if (automatic) return "auto";
  std::string text;
  for (const auto& [name, degree] : parts_of(*this))
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, degree);
  return text;
}

Degrees parse_degrees(const std::string& text) {
  Degrees d;
  if (text == "auto") {
    d.automatic = true;
    return d;
  }
  const Parts parts = read_parts(text);
  for (const auto& [name, degree] : parts) {
    if (name == "dsp") d.dsp = degree;
    if (name == "ring") d.ring = degree;
    if (name == "gather") d.gather = degree;
    if (name == "ulysses" || name == "ulysses-both") d.ulysses = degree;
    if (name == "ulysses-both") d.both = true;
  }
  const bool product = parts.size() == 2 && d.ulysses > 1 && !d.both && d.keys() > 1;
  if (parts.size() > 1 && !product) {
    std::vector<std::string> names;
    for (const auto& part : parts) names.push_back(part.first);
    throw Error(fmt::format("the plan \"{}\" mixes {}", text, fmt::join(names, " and ")),
                "ulysses goes together with ring or with gather; dsp and ulysses-both stand alone");
  }
  d.keys_inside = product && parts[1].first == "ulysses";
  return d;
}

void refuse(const Degrees& degrees, std::initializer_list<std::string_view> names, std::string_view who) {
  for (const auto& [name, degree] : parts_of(degrees)) {
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    throw Error(fmt::format("the plan \"{}\": {} does not know {} yet", degrees.text(), who, name),
                name == "auto"     ? "name the degrees, as \"ulysses=4\"; reel plan compare says which are quickest"
                : name == "gather" ? fmt::format("use \"ring={}\" in its place: all keys travel", degree)
                                   : fmt::format("use \"dsp={}\" or \"ulysses={}\"", degree, degree));
  }
}

void visit_degrees(Settings& settings, const std::string& path, Degrees& degrees, const std::string& meaning) {
  std::string text = degrees.text();
  settings.string(path, text, meaning);
  try {
    degrees = parse_degrees(text);
  } catch (const Error& error) {
    if (settings.toml() == nullptr) throw;
    throw Error(fmt::format("{}: {}: {}", settings.toml()->where(path), path, error.what()), error.hint());
  }
}

}  // namespace reel::layout
