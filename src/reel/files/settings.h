// The keys of a run file, each said once: name, range, default and meaning.
//
// A configuration is a plain struct with a function that visits its fields:
//
//   void visit(Settings& s, TrainConfig& c) {
//     s.section("train", "the training loop");
//     s.integer("train.steps", c.steps, 1, kMany, "optimizer steps");
//   }
//
// The same lines read a file (fields that the file does not name keep what they hold: their default), print
// `reel help config`, and say which keys exist. A wrong type, a value out of range or an unknown key is an Error with
// file and line (toml.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reel/files/toml.h"

namespace reel {

class Settings {
 public:
  static constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();
  static constexpr double kLarge = std::numeric_limits<double>::infinity();

  struct Key {
    std::string path;      // "train.steps"; a section's own entry has no dot
    std::string fallback;  // as TOML: 2000, "adamw", [4, 4, 4]
    std::string range;     // "1 or more", "0 to 1", "uniform | logit-normal"; may be empty
    std::string meaning;
  };

  Settings() = default;                                  // only collects keys
  explicit Settings(const Toml& toml) : toml_(&toml) {}  // reads, too; the caller ends with toml.check_all_used()

  void section(const std::string& name, const std::string& meaning);
  void integer(const std::string& path, std::int64_t& value, std::int64_t least, std::int64_t most,
               const std::string& meaning);
  void number(const std::string& path, double& value, double least, double most, const std::string& meaning);
  void boolean(const std::string& path, bool& value, const std::string& meaning);
  void string(const std::string& path, std::string& value, const std::string& meaning);
  void choice(const std::string& path, std::string& value, const std::vector<std::string>& choices,
              const std::string& meaning);
  // `count` numbers, or any number of them where count is 0
  void integers(const std::string& path, std::vector<std::int64_t>& value, std::size_t count,
                const std::string& meaning);

  void numbers(const std::string& path, std::vector<double>& value, std::size_t count, const std::string& meaning);

  const std::vector<Key>& keys() const { return keys_; }
  // The file being read, or null: for checks that involve several keys (toml->where("train.lr")).
  const Toml* toml() const { return toml_; }

 private:
  template <class T>
  void many(const std::string& path, std::vector<T>& value, std::size_t count, const std::string& meaning);

  const Toml* toml_ = nullptr;
  std::vector<Key> keys_;
};

// Every key of `section` ("" for all), one a line with default, range and meaning.
std::string describe(const Settings& settings, const std::string& section);

}  // namespace reel
