#include "reel/files/toml_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "reel/base/error.h"
#include "reel/files/nearest.h"
#include "reel/files/text.h"
#include "reel/files/utf8.h"

namespace reel {

namespace {

constexpr std::size_t kLargestFile = 16 << 20;
constexpr int kDeepestTable = 64;

// Without recursion: 256 nested inline tables with keys of 32 parts get through the parser.
int depth_of(const toml::node& root) {
  int deepest = 0;
  std::vector<std::pair<const toml::node*, int>> open = {{&root, 0}};
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    deepest = std::max(deepest, depth);
    if (const auto* table = node->as_table()) {
      for (const auto& [key, child] : *table) open.emplace_back(&child, depth + 1);
    } else if (const auto* array = node->as_array()) {
      for (const toml::node& child : *array) open.emplace_back(&child, depth + 1);
    }
  }
  return deepest;
}

toml::table parse_table(std::string_view text, const std::string& name) {
  if (text.size() > kLargestFile) {
    throw Error(fmt::format("{}: {} bytes are too many for settings", name, text.size()), "is it the right file?");
  }
  check_toml_depth(text, name);
  try {
    toml::table table = toml::parse(text, name);
    if (depth_of(table) > kDeepestTable) {
      throw Error(fmt::format("{}: tables and arrays are nested more than {} deep", name, kDeepestTable),
                  "nothing is that deep");
    }
    return table;
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()),
                "see https://toml.io for the syntax");
  }
}

}  // namespace

// "the string "many"", "a table": how a value is named in errors.
std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    const bool long_text = text->get().size() > 60;
    return long_text ? "a long string" : fmt::format("the string \"{}\"", text->get());
  }
  if (const auto* number = node.as_integer()) return fmt::format("the integer {}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the number {}", number->get());
  if (const auto* boolean = node.as_boolean()) return fmt::format("the boolean {}", boolean->get());
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  return node.is_time() ? "a time" : "a date";
}

std::unique_ptr<TomlTree> TomlTree::parse(std::string_view text, const std::string& name) {
  auto tree = std::make_unique<TomlTree>();
  tree->root = parse_table(text, name);
  tree->name = name;
  return tree;
}

TomlPath TomlTree::ask(const std::string& text) const {
  if (text.empty()) return {};  // the file itself
  TomlPath path = parse_toml_path(text, name);
  known.insert(toml_path_text(path));
  return path;
}

std::string TomlTree::where(const TomlPath& path, const toml::node* node) const {
  for (std::size_t steps = path.size(); steps > 0; --steps) {
    if (const auto found = overrides.find(toml_path_text(path, steps)); found != overrides.end()) return found->second;
  }
  const auto line = node == nullptr ? 0 : node->source().begin.line;
  return line == 0 ? name : fmt::format("{}:{}", name, line);
}

const toml::node* TomlTree::find(const TomlPath& path) const {
  const toml::node* node = &root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool fits = path[i].is_index ? node->is_array() : node->is_table();
    if (!fits) {
      const TomlPath way(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i));
      throw Error(fmt::format("{}: {} must be {}, found {}", where(way, node), toml_path_text(way),
                              path[i].is_index ? "an array of tables" : "a table", describe(*node)),
                  fmt::format("{} is looked for in it", toml_path_text(path)));
    }
    node = path[i].is_index ? node->as_array()->get(path[i].index) : node->as_table()->get(path[i].key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

void TomlTree::set(const std::string& assignment) {
  const std::string where = "--set " + assignment;
  if (find_invalid_utf8(assignment) != assignment.npos) throw Error("--set: not UTF-8", "check the command line");
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos) throw Error(where + ": there is no value", "write it like --set train.steps=2000");
  const TomlPath path = parse_toml_path(trimmed(std::string_view(assignment).substr(0, equals)), where);
  const std::string value(trimmed(std::string_view(assignment).substr(equals + 1)));

  toml::table parsed;
  const bool bare = value.find_first_of("[{\"'") != 0;
  try {
    parsed = parse_table("value = " + value, where);
  } catch (const Error& error) {
    if (!bare) throw Error(fmt::format("{}: the value is not TOML", where), error.what());
  }
  if (parsed.size() != 1) {  // a word, or text with lines that would be keys of their own
    parsed.clear();
    parsed.insert("value", value);
  }

  toml::node* node = &root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string way = toml_path_text(path, i);
    if (path[i].is_index) {
      toml::node* element = node->is_array() ? node->as_array()->get(path[i].index) : nullptr;
      if (element == nullptr || i + 1 == path.size()) {
        throw Error(fmt::format("{}: there is no table {}[{}] to set a key of", where, way, path[i].index),
                    "set a key of a table that is there, or a whole array");
      }
      node = element;
      continue;
    }
    toml::table* table = node->as_table();
    if (table == nullptr) {
      throw Error(fmt::format("{}: {} is {}, not a table", where, way, describe(*node)), "set a key of a table");
    }
    if (i + 1 < path.size()) {
      const bool array = path[i + 1].is_index;
      node = table->get(path[i].key);
      if (node == nullptr && !array) node = &table->insert(path[i].key, toml::table{}).first->second;
      if (node == nullptr)
        throw Error(fmt::format("{}: there is no {}", where, toml_path_text(path, i + 1)), "check it");
      continue;
    }
    const toml::node* old = table->get(path[i].key);
    if (old != nullptr && (old->is_table() || old->is_array_of_tables()) != parsed.get("value")->is_table()) {
      throw Error(fmt::format("{}: {} is {}", where, toml_path_text(path), describe(*old)),
                  "set one of its keys instead");
    }
    parsed.get("value")->visit([&](auto& concrete) { table->insert_or_assign(path[i].key, std::move(concrete)); });
  }
  overrides[toml_path_text(path)] = where;
}

std::vector<TomlTree::Key> TomlTree::keys() const {
  std::vector<Key> found, open = {{{}, &root}};
  while (!open.empty()) {
    const Key key = std::move(open.back());
    open.pop_back();
    const toml::table* table = key.node->as_table();
    if (table != nullptr && (!table->empty() || table == &root)) {
      for (const auto& [name_of, node] : *table) {
        open.push_back({key.path, &node});
        open.back().path.push_back({std::string(name_of.str())});
      }
    } else if (key.node->is_array_of_tables()) {
      const toml::array& array = *key.node->as_array();
      for (std::size_t i = 0; i < array.size(); ++i) {
        open.push_back({key.path, array.get(i)});
        open.back().path.push_back({{}, i, true});
      }
    } else {
      found.push_back(key);
    }
  }
  return found;
}

void TomlTree::missing(const std::string& text) const {
  const TomlPath path = parse_toml_path(text, name);
  const std::string section = toml_path_text(path, path.size() - 1);
  std::string hint = section.empty() ? fmt::format("add {} = ...", toml_key_text(path.back().key))
                                     : fmt::format("add {} = ... to [{}]", toml_key_text(path.back().key), section);
  for (const Key& key : keys()) {  // was it misspelt?
    if (key.path.size() != path.size() || toml_path_text(key.path, path.size() - 1) != section) continue;
    const std::vector<std::string> candidate = {key.path.back().key};
    if (known.contains(toml_path_text(key.path)) || nearest(path.back().key, candidate).empty()) continue;
    hint = fmt::format("is '{}' at {} meant to be it?", toml_path_text(key.path), where(key.path, key.node));
  }
  throw Error(fmt::format("{}: {} is missing", name, text), hint);
}

bool TomlTree::is_known(const Key& key) const {
  const std::string text = toml_path_text(key.path);
  if (known.contains(text)) return true;
  const auto* table = key.node->as_table();
  if (table == nullptr || !table->empty()) return false;
  return std::any_of(known.begin(), known.end(), [&](const std::string& path) { return path.starts_with(text + "."); });
}

void TomlTree::check_all_used() const {
  std::vector<Key> unknown;
  for (const Key& key : keys()) {
    if (!is_known(key)) unknown.push_back(key);
  }
  if (unknown.empty()) return;
  const auto line = [](const Key& key) { return key.node->source().begin.line; };
  const Key& first =
      *std::min_element(unknown.begin(), unknown.end(), [&](const Key& a, const Key& b) { return line(a) < line(b); });
  throw Error(fmt::format("{}: unknown {} '{}'", where(first.path, first.node),
                          first.node->is_table() ? "table" : "key", toml_path_text(first.path)),
              hint(first.path));
}

// Slips, in the order of their likelihood: the key, its section, the place.
std::string TomlTree::hint(const TomlPath& unknown) const {
  const std::string section = toml_path_text(unknown, unknown.size() - 1);
  const std::string& leaf = unknown.back().key;
  std::vector<std::string> beside, same_leaf, sections;
  for (const std::string& text : known) {
    const TomlPath path = parse_toml_path(text, name);
    const std::string its_section = toml_path_text(path, path.size() - 1);
    if (its_section == section && !path.back().is_index) beside.push_back(path.back().key);
    if (path.back().key == leaf) same_leaf.push_back(text);
    if (!its_section.empty() && std::find(sections.begin(), sections.end(), its_section) == sections.end()) {
      sections.push_back(its_section);
    }
  }
  const std::string prefix = section.empty() ? "" : section + ".";
  if (const std::string near = nearest(leaf, beside); !near.empty()) {
    return fmt::format("did you mean '{}{}'?", prefix, toml_key_text(near));
  }
  if (!same_leaf.empty()) {
    const auto distance = [&](const std::string& text) { return edit_distance(toml_path_text(unknown), text); };
    const auto nearer = [&](const auto& a, const auto& b) { return distance(a) < distance(b); };
    return fmt::format("did you mean '{}'?", *std::min_element(same_leaf.begin(), same_leaf.end(), nearer));
  }
  if (!beside.empty() && !section.empty())
    return fmt::format("known keys of [{}]: {}", section, fmt::join(beside, ", "));
  if (!beside.empty()) return fmt::format("known keys: {}", fmt::join(beside, ", "));
  return nearest_hint(section, sections, "sections");
}

}  // namespace reel
