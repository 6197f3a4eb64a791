// Settings in TOML files, read so that a slip of the pen is found and named.
//
// A key is asked for by its path: "train.steps", "level[0].name", device."a100.80".memory. Every getter exists with a
// fallback, returned when the key is absent, and without, when it must be there. A value of the wrong type is an Error
// with its line:
//   run.toml:3: train.steps must be an integer, found the string "many"
// What was asked for is remembered; when everything was read, check_all_used() refuses the keys nobody asked for:
//   run.toml:14: unknown key 'train.stpes'
//   did you mean 'train.steps'?
// Getters note what they were asked, so one object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reel {

struct TomlTree;  // toml_tree.h

class Toml {
 public:
  static Toml load(const std::string& path);
  static Toml parse(std::string_view text, const std::string& name);  // `name` stands for the file in errors
  Toml();                                                             // no keys; set() may add some
  Toml(Toml&&) noexcept;
  Toml& operator=(Toml&&) noexcept;
  ~Toml();

  // An override from the command line, "train.steps=2000". The value is TOML; what is not (ulysses=2, wan) is taken as
  // a string. In errors its place is "--set train.steps=2000" instead of a line.
  void set(const std::string& assignment);

  bool has(const std::string& path) const;

  std::int64_t integer(const std::string& path) const;
  std::int64_t integer(const std::string& path, std::int64_t fallback) const;
  std::int64_t integer_in(const std::string& path, std::int64_t least, std::int64_t most) const;
  std::int64_t integer_in(const std::string& path, std::int64_t least, std::int64_t most, std::int64_t fallback) const;

  double number(const std::string& path) const;  // integers too
  double number(const std::string& path, double fallback) const;
  double number_in(const std::string& path, double least, double most) const;  // nan is in no range
  double number_in(const std::string& path, double least, double most, double fallback) const;

  bool boolean(const std::string& path) const;
  bool boolean(const std::string& path, bool fallback) const;

  std::string string(const std::string& path) const;
  std::string string(const std::string& path, const std::string& fallback) const;
  // One of `choices`; an Error names the nearest or lists them.
  std::string choice(const std::string& path, const std::vector<std::string>& choices) const;
  std::string choice(const std::string& path, const std::vector<std::string>& choices,
                     const std::string& fallback) const;

  // Lists; a single value is a list of one.
  std::vector<std::int64_t> integers(const std::string& path) const;
  std::vector<std::int64_t> integers(const std::string& path, const std::vector<std::int64_t>& fallback) const;
  std::vector<double> numbers(const std::string& path) const;
  std::vector<double> numbers(const std::string& path, const std::vector<double>& fallback) const;
  std::vector<std::string> strings(const std::string& path) const;
  std::vector<std::string> strings(const std::string& path, const std::vector<std::string>& fallback) const;

  // Names of the tables inside a table ("" is the file itself), in alphabetical order, quoted where a path needs it:
  // [device.h100] and [device."a100.80"] give  "a100.80"  and  h100  for "device". None when it is absent.
  std::vector<std::string> tables(const std::string& path) const;
  // Elements of an array of tables, [[level]]; each is read as level[0], level[1], ... 0 when it is absent.
  std::size_t size(const std::string& path) const;

  // "run.toml:14" or "--set a=b" for a key that is there, else "run.toml": for the caller's own errors.
  std::string where(const std::string& path) const;

  void check_all_used() const;

  std::string text() const;  // everything, overrides included, as TOML

 private:
  explicit Toml(std::unique_ptr<TomlTree> tree);
  std::unique_ptr<TomlTree> tree_;
};

}  // namespace reel
