// Paths to values in a TOML file: train.steps, level[0].name, device."a100.80".memory. Used by toml.cpp only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reel {

struct TomlStep {
  std::string key;        // a key of a table,
  std::size_t index = 0;  // or, when is_index, an element of an array
  bool is_index = false;
};
using TomlPath = std::vector<TomlStep>;

// Throws Error; `where` begins its message. At most kDeepestTomlKey steps.
TomlPath parse_toml_path(std::string_view text, const std::string& where);

// As parse_toml_path reads it, in one spelling: keys are quoted only where they must be.
std::string toml_path_text(const TomlPath& path, std::size_t steps);
inline std::string toml_path_text(const TomlPath& path) { return toml_path_text(path, path.size()); }
std::string toml_key_text(std::string_view key);

// toml++ frees tables by recursion and does not limit dotted keys: a key of a hundred thousand parts ends the process.
// Throws Error, with the line, for a key of more than kDeepestTomlKey parts. (Arrays and inline tables toml++ limits
// itself, to 256.)
constexpr int kDeepestTomlKey = 32;
void check_toml_depth(std::string_view text, const std::string& name);

}  // namespace reel
