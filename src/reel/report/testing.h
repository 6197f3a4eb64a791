// What the tests of pages and charts look for in markup.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace reel::report {

inline bool has(std::string_view page, std::string_view text) { return page.find(text) != page.npos; }

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// What lies between `before` and the next `after`, for each `before`.
inline std::vector<std::string> all_between(std::string_view text, std::string_view before, std::string_view after) {
  std::vector<std::string> found;
  for (std::size_t at = text.find(before); at != text.npos; at = text.find(before, at)) {
    at += before.size();
    found.emplace_back(text.substr(at, text.find(after, at) - at));
  }
  return found;
}

// Why this markup is not well formed (elements closed in order, attributes quoted, no stray <, > or &), or nothing.
inline std::string markup_fault(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '>') return "stray > before " + std::string(text.substr(at, 40));
    if (text[at] == '&') {
      const std::string_view reference = text.substr(at, text.find(';', at) - at + 1);
      const std::vector<std::string_view> known = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
      if (std::find(known.begin(), known.end(), reference) == known.end())
        return "stray & in " + std::string(reference.substr(0, 40));
    }
    if (text[at] != '<') continue;
    std::size_t end = at + 1;
    for (bool quoted = false; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "a < inside " + std::string(text.substr(at, 40));
    }
    if (end >= text.size()) return "no end of " + std::string(text.substr(at, 40));
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    at = end;
    if (name == "!doctype" || tag.ends_with('/')) continue;
    if (name.starts_with('/')) {
      if (open.empty() || "/" + open.back() != name)
        return name + " closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else {
      if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) return "an element named " + name;
      open.push_back(name);
      if (name == "style") at = text.find("</style", at) - 1;  // CSS may hold > and &
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

// "nan" or "inf", should a number that is not finite have been written.
inline bool holds_only_finite_numbers(std::string text) {
  for (std::size_t at = text.find("finite"); at != text.npos; at = text.find("finite")) text.erase(at, 6);
  return text.find("nan") == text.npos && text.find("inf") == text.npos;
}

}  // namespace reel::report
