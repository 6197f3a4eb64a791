// config.json of a model, key by key. For the families' sources.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reel/base/error.h"

namespace reel::model {

constexpr std::int64_t kMost = 1 << 20;  // of anything in a model; products of a few such numbers still fit 64 bits

// Reads keys of a config.json with the defaults of the class that wrote it.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::ordered_json& json, const std::string& file) : json_(json), file_(file) {}

  bool named(const char* key) const { return json_.contains(key); }  // also as null
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  std::int64_t integer(const char* key, std::int64_t fallback) const {
    if (!has(key)) return fallback;
    return checked(key, json_[key], "an integer from 1 to 1048576");
  }
  double number(const char* key, double fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_number()) fail(key, "a number");
    return json_[key].get<double>();
  }
  bool boolean(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_boolean()) fail(key, "true or false");
    return json_[key].get<bool>();
  }
  std::string string(const char* key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_string()) fail(key, "a string");
    return json_[key].get<std::string>();
  }
  // Classes of diffusers write _class_name, those of transformers (STDiT3) a list.
  std::string class_name() const {
    const char* list = "architectures";
    if (has("_class_name") || !has(list)) return string("_class_name", "");
    if (!json_[list].is_array() || json_[list].size() != 1 || !json_[list][0].is_string()) fail(list, "one name");
    return json_[list][0].get<std::string>();
  }
  std::vector<std::int64_t> patch(const char* key) const {
    if (!has(key)) return {1, 2, 2};
    const nlohmann::ordered_json& value = json_[key];
    const char* wanted = "three integers from 1 to 1048576";
    if (value.is_number_integer()) return {1, checked(key, value, wanted), checked(key, value, wanted)};
    if (!value.is_array() || value.size() != 3) fail(key, wanted);
    std::vector<std::int64_t> patch;
    for (const nlohmann::ordered_json& each : value) patch.push_back(checked(key, each, wanted));
    return patch;
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(fmt::format("{}: {}", file_, what), hint);
  }

 private:
  [[noreturn]] void fail(const char* key, const char* wanted) const {
    refuse(fmt::format("{} must be {}, found {}", key, wanted, json_[key].dump()),
           "compare with a config.json that works");
  }
  std::int64_t checked(const char* key, const nlohmann::ordered_json& value, const char* wanted) const {
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : 0;
    if (number < 1 || number > kMost) fail(key, wanted);
    return number;
  }
  const nlohmann::ordered_json& json_;
  const std::string& file_;
};

}  // namespace reel::model
