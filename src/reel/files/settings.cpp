#include "reel/files/settings.h"

#include <fmt/format.h>

#include "reel/base/error.h"
#include "reel/files/nearest.h"

namespace reel {

namespace {

template <class T>
std::string range_text(T least, T most, T lowest, T highest) {
  if (least == lowest && most == highest) return "";
  if (most == highest) return fmt::format("{} or more", least);
  if (least == lowest) return fmt::format("at most {}", most);
  return fmt::format("{} to {}", least, most);
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

}  // namespace

void Settings::section(const std::string& name, const std::string& meaning) {
  keys_.push_back({name, "", "", meaning});
}

void Settings::integer(const std::string& path, std::int64_t& value, std::int64_t least, std::int64_t most,
                       const std::string& meaning) {
  keys_.push_back({path, fmt::format("{}", value), range_text<std::int64_t>(least, most, -kMany, kMany), meaning});
  if (toml_ != nullptr) value = toml_->integer_in(path, least, most, value);
}

void Settings::number(const std::string& path, double& value, double least, double most, const std::string& meaning) {
  keys_.push_back({path, fmt::format("{}", value), range_text(least, most, -kLarge, kLarge), meaning});
  if (toml_ != nullptr) value = toml_->number_in(path, least, most, value);
}

void Settings::boolean(const std::string& path, bool& value, const std::string& meaning) {
  keys_.push_back({path, value ? "true" : "false", "", meaning});
  if (toml_ != nullptr) value = toml_->boolean(path, value);
}

void Settings::string(const std::string& path, std::string& value, const std::string& meaning) {
  keys_.push_back({path, in_quotes(value), "", meaning});
  if (toml_ != nullptr) value = toml_->string(path, value);
}

void Settings::choice(const std::string& path, std::string& value, const std::vector<std::string>& choices,
                      const std::string& meaning) {
  keys_.push_back({path, in_quotes(value), fmt::format("{}", fmt::join(choices, " | ")), meaning});
  if (toml_ != nullptr) value = toml_->choice(path, choices, value);
}

template <class T>
void Settings::many(const std::string& path, std::vector<T>& value, std::size_t count, const std::string& meaning) {
  keys_.push_back(
      {path, fmt::format("[{}]", fmt::join(value, ", ")), count == 0 ? "" : fmt::format("{} numbers", count), meaning});
  if (toml_ == nullptr) return;
  if constexpr (std::is_integral_v<T>) {
    value = toml_->integers(path, value);
  } else {
    value = toml_->numbers(path, value);
  }
  if (count != 0 && value.size() != count) {
    throw Error(fmt::format("{}: {} must have {} numbers, found {}", toml_->where(path), path, count, value.size()),
                meaning);
  }
}

void Settings::integers(const std::string& path, std::vector<std::int64_t>& value, std::size_t count,
                        const std::string& meaning) {
  many(path, value, count, meaning);
}

void Settings::numbers(const std::string& path, std::vector<double>& value, std::size_t count,
                       const std::string& meaning) {
  many(path, value, count, meaning);
}

std::string describe(const Settings& settings, const std::string& section) {
  std::vector<std::string> sections;
  std::size_t width = 0, fallback_width = 0;
  const auto inside = [&](const Settings::Key& key) {
    return section.empty() || key.path == section || key.path.starts_with(section + ".");
  };
  for (const auto& key : settings.keys()) {
    if (key.path.find('.') == std::string::npos) sections.push_back(key.path);
    if (!inside(key)) continue;
    width = std::max(width, key.path.size());
    fallback_width = std::max(fallback_width, std::min<std::size_t>(key.fallback.size(), 24));
  }
  if (width == 0) {
    const std::string near = nearest(section, sections);
    throw Error(fmt::format("there is no section '{}'", section),
                near.empty() ? fmt::format("the sections are {}", fmt::join(sections, ", "))
                             : fmt::format("did you mean '{}'?", near));
  }
  std::string text;
  for (const auto& key : settings.keys()) {
    if (!inside(key)) continue;
    if (key.path.find('.') == std::string::npos) {
      text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", key.path, key.meaning);
    } else {
      text += fmt::format("  {:<{}}  {:<{}}  {}{}\n", key.path, width, key.fallback, fallback_width, key.meaning,
                          key.range.empty() ? "" : " (" + key.range + ")");
    }
  }
  return text;
}

}  // namespace reel
