#include "reel/files/toml.h"

#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/files/nearest.h"
#include "reel/files/toml_tree.h"

namespace reel {

namespace {

// Value types: what toml++ holds, and the word for it. `get` is empty for any other type.
template <class Value>
struct Type;
template <>
struct Type<std::int64_t> {
  static constexpr std::string_view kOne = "an integer", kMany = "integers";
  static std::optional<std::int64_t> get(const toml::node& node) { return node.value_exact<std::int64_t>(); }
};
template <>
struct Type<double> {
  static constexpr std::string_view kOne = "a number", kMany = "numbers";
  static std::optional<double> get(const toml::node& node) {
    if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
    return node.value_exact<double>();
  }
};
template <>
struct Type<bool> {
  static constexpr std::string_view kOne = "true or false";
  static std::optional<bool> get(const toml::node& node) { return node.value_exact<bool>(); }
};
template <>
struct Type<std::string> {
  static constexpr std::string_view kOne = "a string", kMany = "strings";
  static std::optional<std::string> get(const toml::node& node) { return node.value_exact<std::string>(); }
};

[[noreturn]] void wrong_type(const TomlTree& tree, const TomlPath& path, const toml::node& node,
                             std::string_view needed) {
  const std::string text = toml_path_text(path);
  const bool quote = needed == Type<std::string>::kOne && tree.overrides.contains(text);
  throw Error(
      fmt::format("{}: {} must be {}, found {}", tree.where(path, &node), text, needed, describe(node)),
      quote ? fmt::format("put it in quotes: --set '{}=\"...\"'", text) : fmt::format("write {} there", needed));
}

template <class Value>
std::optional<Value> get(const TomlTree& tree, const std::string& text) {
  const TomlPath path = tree.ask(text);
  const toml::node* node = tree.find(path);
  if (node == nullptr) return std::nullopt;
  std::optional<Value> value = Type<Value>::get(*node);
  if (!value) wrong_type(tree, path, *node, Type<Value>::kOne);
  return value;
}

template <class Value>
std::optional<std::vector<Value>> get_all(const TomlTree& tree, const std::string& text) {
  TomlPath path = tree.ask(text);
  const toml::node* node = tree.find(path);
  if (node == nullptr) return std::nullopt;
  if (const std::optional<Value> one = Type<Value>::get(*node)) return std::vector<Value>{*one};
  if (!node->is_array()) wrong_type(tree, path, *node, fmt::format("an array of {}", Type<Value>::kMany));
  std::vector<Value> values;
  path.push_back({{}, 0, true});
  for (const toml::node& element : *node->as_array()) {
    const std::optional<Value> value = Type<Value>::get(element);
    if (!value) wrong_type(tree, path, element, Type<Value>::kOne);
    values.push_back(*value);
    ++path.back().index;
  }
  return values;
}

template <class Value>
Value require(std::optional<Value> value, const TomlTree& tree, const std::string& path) {
  if (!value) tree.missing(path);
  return *std::move(value);
}

template <class Number>
Number within(const Toml& toml, const std::string& path, Number number, Number least, Number most) {
  if (number >= least && number <= most) return number;
  const bool open = most == std::numeric_limits<Number>::max() || most == std::numeric_limits<Number>::infinity();
  throw Error(fmt::format("{}: {} is {}", toml.where(path), path, number),
              open ? fmt::format("use {} or more", least) : fmt::format("use a value from {} to {}", least, most));
}

std::string one_of(const Toml& toml, const std::string& path, const std::string& found,
                   const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (found == choice) return found;
  }
  throw Error(fmt::format("{}: {} is \"{}\"", toml.where(path), path, found), nearest_hint(found, choices, "values"));
}

}  // namespace

Toml::Toml() : Toml(TomlTree::parse("", "settings")) {}
Toml::Toml(std::unique_ptr<TomlTree> tree) : tree_(std::move(tree)) {}
Toml::Toml(Toml&&) noexcept = default;
Toml& Toml::operator=(Toml&&) noexcept = default;
Toml::~Toml() = default;

Toml Toml::load(const std::string& path) { return parse(read_file(path), path); }
Toml Toml::parse(std::string_view text, const std::string& name) { return Toml(TomlTree::parse(text, name)); }

void Toml::set(const std::string& assignment) { tree_->set(assignment); }
bool Toml::has(const std::string& path) const { return tree_->find(tree_->ask(path)) != nullptr; }
void Toml::check_all_used() const { tree_->check_all_used(); }

std::int64_t Toml::integer(const std::string& path) const {
  return require(get<std::int64_t>(*tree_, path), *tree_, path);
}
std::int64_t Toml::integer(const std::string& path, std::int64_t fallback) const {
  return get<std::int64_t>(*tree_, path).value_or(fallback);
}
std::int64_t Toml::integer_in(const std::string& path, std::int64_t least, std::int64_t most) const {
  return within(*this, path, integer(path), least, most);
}
std::int64_t Toml::integer_in(const std::string& path, std::int64_t least, std::int64_t most,
                              std::int64_t fallback) const {
  return has(path) ? integer_in(path, least, most) : fallback;
}

double Toml::number(const std::string& path) const { return require(get<double>(*tree_, path), *tree_, path); }
double Toml::number(const std::string& path, double fallback) const {
  return get<double>(*tree_, path).value_or(fallback);
}
double Toml::number_in(const std::string& path, double least, double most) const {
  return within(*this, path, number(path), least, most);
}
double Toml::number_in(const std::string& path, double least, double most, double fallback) const {
  return has(path) ? number_in(path, least, most) : fallback;
}

bool Toml::boolean(const std::string& path) const { return require(get<bool>(*tree_, path), *tree_, path); }
bool Toml::boolean(const std::string& path, bool fallback) const { return get<bool>(*tree_, path).value_or(fallback); }

std::string Toml::string(const std::string& path) const {
  return require(get<std::string>(*tree_, path), *tree_, path);
}
std::string Toml::string(const std::string& path, const std::string& fallback) const {
  return get<std::string>(*tree_, path).value_or(fallback);
}
std::string Toml::choice(const std::string& path, const std::vector<std::string>& choices) const {
  return one_of(*this, path, string(path), choices);
}
std::string Toml::choice(const std::string& path, const std::vector<std::string>& choices,
                         const std::string& fallback) const {
  return has(path) ? choice(path, choices) : fallback;
}

std::vector<std::int64_t> Toml::integers(const std::string& path) const {
  return require(get_all<std::int64_t>(*tree_, path), *tree_, path);
}
std::vector<std::int64_t> Toml::integers(const std::string& path, const std::vector<std::int64_t>& fallback) const {
  return get_all<std::int64_t>(*tree_, path).value_or(fallback);
}
std::vector<double> Toml::numbers(const std::string& path) const {
  return require(get_all<double>(*tree_, path), *tree_, path);
}
std::vector<double> Toml::numbers(const std::string& path, const std::vector<double>& fallback) const {
  return get_all<double>(*tree_, path).value_or(fallback);
}
std::vector<std::string> Toml::strings(const std::string& path) const {
  return require(get_all<std::string>(*tree_, path), *tree_, path);
}
std::vector<std::string> Toml::strings(const std::string& path, const std::vector<std::string>& fallback) const {
  return get_all<std::string>(*tree_, path).value_or(fallback);
}

std::vector<std::string> Toml::tables(const std::string& path) const {
  const TomlPath steps = tree_->ask(path);
  const toml::node* node = tree_->find(steps);
  if (node == nullptr) return {};
  if (!node->is_table()) wrong_type(*tree_, steps, *node, "a table");
  std::vector<std::string> names;
  for (const auto& [key, child] : *node->as_table()) {
    if (child.is_table()) names.push_back(toml_key_text(key.str()));
  }
  return names;
}

std::size_t Toml::size(const std::string& path) const {
  const TomlPath steps = tree_->ask(path);
  const toml::node* node = tree_->find(steps);
  if (node == nullptr) return 0;
  const bool empty = node->is_array() && node->as_array()->empty();
  if (!empty && !node->is_array_of_tables()) wrong_type(*tree_, steps, *node, "an array of tables");
  return node->as_array()->size();
}

std::string Toml::where(const std::string& path) const {
  const TomlPath steps = tree_->ask(path);
  return tree_->where(steps, tree_->find(steps));
}

std::string Toml::text() const {
  std::ostringstream stream;
  stream << tree_->root << "\n";
  return stream.str();
}

}  // namespace reel
