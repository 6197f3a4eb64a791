// The parsed file behind Toml, with the bookkeeping for errors. Used by toml.cpp only, so that toml++ is compiled there
// and nowhere else.
#pragma once

#include <toml++/toml.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reel/files/toml_path.h"

namespace reel {

std::string describe(const toml::node& node);  // "the string "many"", "a table": how errors name a value

struct TomlTree {
  toml::table root;
  std::string name;                              // of the file
  std::map<std::string, std::string> overrides;  // path -> "--set path=value"
  mutable std::set<std::string> known;           // every path that was asked for, there or not

  static std::unique_ptr<TomlTree> parse(std::string_view text, const std::string& name);
  void set(const std::string& assignment);

  TomlPath ask(const std::string& path) const;         // notes that the path is known
  const toml::node* find(const TomlPath& path) const;  // or null; an Error when something on the way is not a table
  std::string where(const TomlPath& path, const toml::node* node) const;

  [[noreturn]] void missing(const std::string& path) const;
  void check_all_used() const;

 private:
  struct Key {
    TomlPath path;
    const toml::node* node;
  };
  std::vector<Key> keys() const;  // what can be asked for: values, arrays, and tables without either
  bool is_known(const Key& key) const;
  std::string hint(const TomlPath& unknown) const;
};

}  // namespace reel
