#include "reel/data/latents.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/half.h"

namespace reel::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const SafetensorsFile& file, const char* tensor, const std::string& what, const char* hint) {
  throw Error(fmt::format("{}: tensor '{}' {}", file.name(), tensor, what), hint);
}

std::vector<std::string> list_shards(const std::string& path) {
  std::vector<std::string> shards;
  std::error_code failure;
  fs::directory_iterator at(path, failure);
  for (; !failure && at != fs::directory_iterator(); at.increment(failure)) {
    const bool hidden = at->path().filename().string().starts_with('.');
    if (!hidden && at->path().extension() == ".safetensors") shards.push_back(at->path().string());
  }
  if (failure)
    throw Error(fmt::format("cannot list the latents in {}: {}", path, failure.message()), "check data.path");
  if (shards.empty()) {
    throw Error(fmt::format("{}: no *.safetensors in this folder", path), "data.path names the folder of the shards");
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

void check_floats(const SafetensorsFile& file, const char* tensor) {
  const Dtype dtype = file.info(tensor).dtype;
  if (dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16) return;
  fail(file, tensor, fmt::format("is {}", dtype_name(dtype)), "store it as F32, F16 or BF16");
}

// How many clips a file holds, and whether its tensors have an axis for them.
struct Count {
  std::int64_t clips = 1;
  bool axis = false;
};

Count check_latents(const SafetensorsFile& file, const Format& wanted) {
  const auto& shape = file.info("latents").shape;
  const std::vector<std::int64_t> one = {wanted.channels, wanted.frames, wanted.height, wanted.width};
  const bool axis = shape.size() == 5;
  if (!std::equal(one.begin(), one.end(), shape.begin() + (axis ? 1 : 0), shape.end())) {
    fail(file, "latents", fmt::format("is [{}], the model takes [{}]", fmt::join(shape, ", "), fmt::join(one, ", ")),
         "change the sizes of the model, or cache the latents for it");
  }
  check_floats(file, "latents");
  return {axis ? shape[0] : 1, axis};
}

void check_text(const SafetensorsFile& file, const Format& wanted, Count count) {
  const auto& shape = file.info("text").shape;
  std::string needed;
  if (count.axis && (shape.size() != 3 || shape[0] != count.clips)) {
    needed = fmt::format("{} clips need [{}, tokens, width]", count.clips, count.clips);
  } else if (!count.axis && shape.size() != 2) {
    needed = "one clip needs [tokens, width]";
  } else if (shape.back() != wanted.text_width || shape[shape.size() - 2] > wanted.text_tokens) {
    needed = fmt::format("the model takes up to {} tokens of width {}", wanted.text_tokens, wanted.text_width);
  } else {
    return check_floats(file, "text");
  }
  fail(file, "text", fmt::format("is [{}], {}", fmt::join(shape, ", "), needed),
       "change the sizes of the model, or cache the text for it");
}

// One whole number for each clip, in [least, most].
std::vector<std::int64_t> read_numbers(const SafetensorsFile& file, const char* tensor, Count count, std::int64_t least,
                                       std::int64_t most) {
  const auto& shape = file.info(tensor).shape;
  const bool agrees = count.axis ? shape == std::vector{count.clips} : file.info(tensor).elements == 1;
  if (!agrees) {
    fail(file, tensor, fmt::format("is [{}], there are {} clips", fmt::join(shape, ", "), count.clips),
         "it has one number for each clip");
  }
  std::vector<std::int64_t> numbers = file.read_i64(tensor);
  for (const std::int64_t number : numbers) {
    if (number < least || number > most) {
      fail(file, tensor, fmt::format("holds {}, it must be {} to {}", number, least, most), "correct the shard");
    }
  }
  return numbers;
}

// Elements [begin, begin + out.size()) of a tensor of floats; the rest of a shard is not touched.
void read_part(const SafetensorsFile& file, const char* tensor, std::size_t begin, std::span<float> out) {
  const Dtype dtype = file.info(tensor).dtype;
  const std::size_t size = dtype_size(dtype);
  const std::byte* from = file.raw(tensor).data() + begin * size;
  if (dtype == Dtype::kF32) {
    std::memcpy(out.data(), from, out.size() * size);
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + i * size, size);
    out[i] = dtype == Dtype::kBF16 ? f32_from_bf16(half) : f32_from_f16(half);
  }
}

void check_finite(const SafetensorsFile& file, const char* tensor, std::int64_t row, std::span<const float> values) {
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return;
  fail(file, tensor, fmt::format("is not finite in clip {}", row), "cache this clip again");
}

void read_text(const SafetensorsFile& file, std::int64_t row, std::int64_t length, const Format& format,
               std::span<float> out) {
  const auto& shape = file.info("text").shape;
  const auto rows = sized(shape[shape.size() - 2] * format.text_width);
  const auto filled = sized(length * format.text_width);
  if (filled > 0) read_part(file, "text", sized(row) * rows, out.first(filled));
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.end(), 0.0f);
  check_finite(file, "text", row, out);
}

}  // namespace

Latents::Latents(const DataConfig& config, const Format& wanted, Warn warn) : Source(wanted, false, std::move(warn)) {
  for (const std::string& path : list_shards(config.path)) {
    std::optional<SafetensorsFile> file;
    try {
      file = SafetensorsFile::open(path);
    } catch (const Error& damaged) {
      skip_file(damaged);
      continue;
    }
    add_shard(path, *file);
  }
  if (shards_.empty()) {
    throw Error(fmt::format("{}: none of the files can be read", config.path), "see the warnings above: each says why");
  }
  std::vector<std::string> names;
  names.reserve(places_.size());
  for (const Place& place : places_) {
    names.push_back(fmt::format("{}:{}", fs::path(shards_[place.shard]).filename().string(), place.row));
  }
  held_ = hold_out(names, config.validation, config.path);
}

void Latents::add_shard(const std::string& path, const SafetensorsFile& file) {
  const Count count = check_latents(file, format());
  std::int64_t tokens = 0;
  if (format().text_values() > 0) {
    check_text(file, format(), count);
    const auto& shape = file.info("text").shape;
    tokens = shape[shape.size() - 2];
  }
  const auto clips = sized(count.clips);
  std::vector<std::int64_t> lengths(clips, tokens), labels(clips, -1);
  if (tokens > 0 && file.contains("text_lengths")) lengths = read_numbers(file, "text_lengths", count, 0, tokens);
  if (file.contains("labels")) labels = read_numbers(file, "labels", count, -1, kMostLabels - 1);
  for (std::size_t row = 0; row < clips; ++row) {
    const int label = static_cast<int>(labels[row]);
    places_.push_back({shards_.size(), static_cast<std::int64_t>(row), label, lengths[row]});
    labels_ = std::max(labels_, label + 1);
  }
  shards_.push_back(path);
}

std::vector<std::string> Latents::labels() const {
  std::vector<std::string> names(sized(labels_));
  for (std::size_t label = 0; label < names.size(); ++label) names[label] = fmt::format("{}", label);
  return names;
}

Buffer<float> Latents::text_of(const std::string& caption) const {
  Buffer<float> text(format().text_values());
  if (text.size() == 0) return text;
  std::int64_t clip = 0;
  const char* end = caption.data() + caption.size();
  if (const auto [last, failure] = std::from_chars(caption.data(), end, clip); failure == std::errc() && last == end) {
    if (clip < 0 || clip >= size(Split::kTraining)) {
      throw Error(fmt::format("there is no clip {} whose text to take", clip),
                  fmt::format("clips are numbered 0 to {}", size(Split::kTraining) - 1));
    }
    const auto training = sized(held_.training[sized(clip)]);
    const Place& place = places_[training];
    read_text(SafetensorsFile::open(shards_[place.shard]), place.row, place.text_length, format(), text);
    return text;
  }
  if (!caption.ends_with(".safetensors")) {
    throw Error(fmt::format("no text encoder: \"{}\" cannot be turned into an embedding", caption),
                "give the number of a clip whose text to take, or a safetensors file with `text` [tokens, width]");
  }
  const SafetensorsFile file = SafetensorsFile::open(caption);
  check_text(file, format(), {});
  read_text(file, 0, file.info("text").shape[0], format(), text);
  return text;
}

void Latents::read_clip(Split split, std::int64_t index, Clip& out) {
  const auto& clips = held_.of(split);
  const auto clip = sized(clips[sized(index % size(split))]);
  const Place& place = places_[clip];
  const SafetensorsFile file = SafetensorsFile::open(shards_[place.shard]);
  const Count count = check_latents(file, format());  // again: the file may have been replaced
  if (place.row >= count.clips) fail(file, "latents", "has become shorter", "start again");
  read_part(file, "latents", sized(place.row) * format().values(), out.values);
  check_finite(file, "latents", place.row, out.values);
  if (out.text.size() > 0) {
    check_text(file, format(), count);
    read_text(file, place.row, place.text_length, format(), out.text);
  }
  out.label = place.label;
  out.caption.clear();
}

void write_latents(const std::string& path, const std::vector<Clip>& clips, const Format& format, Dtype stored) {
  const auto count = static_cast<std::int64_t>(clips.size());
  Buffer<float> latents(clips.size() * format.values()), text(clips.size() * format.text_values());
  std::vector<std::int64_t> labels(clips.size());
  for (std::size_t i = 0; i < clips.size(); ++i) {
    REEL_CHECK(clips[i].values.size() == format.values() && clips[i].text.size() == format.text_values());
    std::copy(clips[i].values.begin(), clips[i].values.end(), latents.data() + i * format.values());
    std::copy(clips[i].text.begin(), clips[i].text.end(), text.data() + i * format.text_values());
    labels[i] = clips[i].label;
  }
  SafetensorsWriter writer;
  writer.add("latents", {count, format.channels, format.frames, format.height, format.width}, latents, stored);
  if (format.text_values() > 0) writer.add("text", {count, format.text_tokens, format.text_width}, text, stored);
  if (std::any_of(labels.begin(), labels.end(), [](auto label) { return label >= 0; })) {
    writer.add("labels", {count}, labels);
  }
  writer.write(path);
}

}  // namespace reel::data
