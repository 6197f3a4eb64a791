#include "reel/files/toml_path.h"

#include <algorithm>
#include <charconv>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel {

namespace {

bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

TomlPath parse_toml_path(std::string_view text, const std::string& where) {
  const auto fail = [&] {
    throw Error(fmt::format("{}: '{}' is not a key", where, text), "write it like train.steps or level[0].name");
  };
  TomlPath path;
  std::size_t at = 0;
  const auto take_key = [&] {
    if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
      const std::size_t close = text.find(text[at], at + 1);
      if (close == text.npos) fail();
      path.push_back({std::string(text.substr(at + 1, close - at - 1))});
      at = close + 1;
    } else {
      const std::size_t begin = at;
      while (at < text.size() && bare(text[at])) ++at;
      if (at == begin) fail();
      path.push_back({std::string(text.substr(begin, at - begin))});
    }
  };
  take_key();
  while (at < text.size()) {
    if (path.size() >= sized(kDeepestTomlKey)) {
      throw Error(fmt::format("{}: a key of more than {} parts", where, kDeepestTomlKey), "nothing is that deep");
    }
    if (text[at] == '.') {
      ++at;
      take_key();
    } else if (text[at] == '[') {
      TomlStep step{{}, 0, true};
      const char* begin = text.data() + at + 1;
      const auto [end, failure] = std::from_chars(begin, text.data() + text.size(), step.index);
      if (failure != std::errc() || end == text.data() + text.size() || *end != ']') fail();
      path.push_back(step);
      at = sized(end + 1 - text.data());
    } else {
      fail();
    }
  }
  return path;
}

std::string toml_key_text(std::string_view key) {
  if (!key.empty() && std::all_of(key.begin(), key.end(), bare)) return std::string(key);
  const char quote = key.find('"') == key.npos ? '"' : '\'';
  return quote + std::string(key) + quote;
}

std::string toml_path_text(const TomlPath& path, std::size_t steps) {
  std::string text;
  for (std::size_t i = 0; i < steps; ++i) {
    if (path[i].is_index) {
      text += fmt::format("[{}]", path[i].index);
    } else {
      if (i > 0) text += '.';
      text += toml_key_text(path[i].key);
    }
  }
  return text;
}

void check_toml_depth(std::string_view text, const std::string& name) {
  int dots = 0, line = 1;
  bool word = false;  // since the last dot
  for (char c : text) {
    if (c == '.') {
      dots = word ? dots + 1 : 0;
      word = false;
      if (dots >= kDeepestTomlKey) {
        throw Error(fmt::format("{}:{}: a key of more than {} parts", name, line, kDeepestTomlKey),
                    "nothing is that deep; a text with that many dots can be written over several lines");
      }
    } else if (std::string_view("\n=,[]{}#").find(c) != std::string_view::npos) {
      dots = 0;
      word = false;
    } else if (c != ' ' && c != '\t') {
      word = true;
    }
    if (c == '\n') ++line;
  }
}

}  // namespace reel
