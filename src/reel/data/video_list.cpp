#include "reel/data/video_list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "reel/base/error.h"
#include "reel/data/clip.h"
#include "reel/files/csv.h"

namespace reel::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 17> kExtensions = {".3gp", ".avi", ".flv",  ".gif",  ".m2ts", ".m4v",
                                                          ".mkv", ".mov", ".mp4",  ".mpeg", ".mpg",  ".mts",
                                                          ".ogv", ".ts",  ".webm", ".wmv",  ".y4m"};

bool is_video(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

int place_of(const std::string& name, const std::vector<std::string>& sorted) {
  return static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), name) - sorted.begin());
}

VideoList list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code failure;
  fs::recursive_directory_iterator at(path, fs::directory_options::follow_directory_symlink, failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (is_video(at->path()) && !at->is_directory(failure)) {
      names.push_back(at->path().lexically_relative(path).generic_string());
    }
  }
  if (failure) throw Error(fmt::format("cannot list the videos in {}: {}", path, failure.message()), "check data.path");
  if (names.empty()) {
    throw Error(fmt::format("{}: no video files in this folder", path),
                fmt::format("known extensions: {}", fmt::join(kExtensions, " ")));
  }
  std::sort(names.begin(), names.end());
  const bool classes = std::all_of(names.begin(), names.end(), [](auto& name) { return name.find('/') != name.npos; });
  VideoList list;
  std::set<std::string> labels;
  for (const std::string& name : names) {
    const std::string label = classes ? name.substr(0, name.find('/')) : "";
    if (classes) labels.insert(label);
    list.entries.push_back({(fs::path(path) / name).string(), name, "", label, -1});
  }
  list.labels.assign(labels.begin(), labels.end());
  if (classes) {
    for (auto& entry : list.entries) entry.label = place_of(entry.caption, list.labels);
  }
  return list;
}

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

void read_labels(const Csv& csv, const std::string& path, VideoList& list) {
  const std::size_t column = csv.column("label");
  std::set<std::string> names;
  bool numbers = true;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& label = csv.text(row, column);
    if (label.empty()) continue;
    names.insert(label);
    numbers = numbers && is_number(label);
  }
  if (!numbers) list.labels.assign(names.begin(), names.end());
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    if (csv.text(row, column).empty()) continue;
    if (!numbers) {
      list.entries[row].label = place_of(csv.text(row, column), list.labels);
      continue;
    }
    const std::int64_t label = csv.integer(row, column);
    if (label >= kMostLabels) {
      throw Error(fmt::format("{}:{}: label {} is too large", path, csv.line(row), label),
                  fmt::format("number the labels from 0 on, below {}, or name them", kMostLabels));
    }
    list.entries[row].label = static_cast<int>(label);
    while (static_cast<std::int64_t>(list.labels.size()) <= label) {
      list.labels.push_back(fmt::format("{}", list.labels.size()));
    }
  }
}

VideoList list_csv(const std::string& path) {
  const Csv csv = Csv::load(path);
  const std::size_t column = csv.column("path");
  VideoList list;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& name = csv.text(row, column);
    if (name.empty()) {
      throw Error(fmt::format("{}:{}: the path is empty", path, csv.line(row)), "name a video file, or remove the row");
    }
    list.entries.push_back(
        {(fs::path(path).parent_path() / name).string(), name, fmt::format("{}:{}: ", path, csv.line(row)), "", -1});
  }
  if (list.entries.empty()) throw Error(fmt::format("{}: there are no rows", path), "add a row for each video");
  for (const char* text : {"caption", "text"}) {  // `text` wins where a file has both
    if (!csv.has(text)) continue;
    for (std::size_t row = 0; row < csv.rows(); ++row) list.entries[row].caption = csv.text(row, text);
  }
  if (csv.has("label")) read_labels(csv, path, list);
  return list;
}

}  // namespace

VideoList list_videos(const std::string& path) {
  return fs::path(path).extension() == ".csv" ? list_csv(path) : list_folder(path);
}

}  // namespace reel::data
