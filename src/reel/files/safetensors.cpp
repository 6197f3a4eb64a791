#include "reel/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/half.h"
#include "reel/files/nearest.h"
#include "reel/files/safetensors_header.h"
#include "reel/files/utf8.h"

namespace reel {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

namespace {

template <class In, class Out, class Convert>
void convert_all(std::span<const std::byte> data, Out* out, Convert convert) {
  for (std::size_t i = 0; i < data.size() / sizeof(In); ++i) {
    In value;  // the data need not be aligned
    std::memcpy(&value, data.data() + i * sizeof(In), sizeof(In));
    out[i] = convert(value, i);
  }
}

// with_type(a zero of the type in the file) for integers and BOOL; false for floats.
template <class WithType>
bool visit_integer(Dtype dtype, const WithType& with_type) {
  switch (dtype) {
    case Dtype::kI64:
      return with_type(std::int64_t{}), true;
    case Dtype::kI32:
      return with_type(std::int32_t{}), true;
    case Dtype::kI16:
      return with_type(std::int16_t{}), true;
    case Dtype::kI8:
      return with_type(std::int8_t{}), true;
    case Dtype::kU64:
      return with_type(std::uint64_t{}), true;
    case Dtype::kU32:
      return with_type(std::uint32_t{}), true;
    case Dtype::kU16:
      return with_type(std::uint16_t{}), true;
    case Dtype::kU8:
    case Dtype::kBool:
      return with_type(std::uint8_t{}), true;
    default:
      return false;
  }
}

template <class Out, class In, class Convert>
void write_converted(FileWriter& file, const In* data, std::size_t size, Convert convert) {
  std::array<Out, 16384> chunk;
  for (std::size_t done = 0; done < size; done += chunk.size()) {
    const std::size_t count = std::min(chunk.size(), size - done);
    for (std::size_t i = 0; i < count; ++i) chunk[i] = static_cast<Out>(convert(data[done + i]));
    file.write(chunk.data(), count * sizeof(Out));
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.name_ = path;
  file.map_ = MappedFile(path);
  file.index(read_safetensors_header(file.map_.bytes(), path));
  return file;
}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  SafetensorsFile file;
  file.name_ = name;
  file.index(read_safetensors_header(bytes, name));
  return file;
}

void SafetensorsFile::index(SafetensorsHeader header) {
  metadata_ = std::move(header.metadata);
  for (auto& [tensor, info, data] : header.tensors) {
    if (!index_.emplace(tensor, names_.size()).second) {
      throw Error(fmt::format("{}: tensor '{}' appears twice", name_, tensor),
                  "its writer is wrong: rename one of them");
    }
    names_.push_back(std::move(tensor));
    entries_.push_back({std::move(info), data});
  }
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& tensor) const {
  const auto found = index_.find(tensor);
  if (found == index_.end()) {
    throw Error(fmt::format("{}: there is no tensor '{}'", name_, tensor), nearest_hint(tensor, names_, "tensors"));
  }
  return entries_[found->second];
}

const TensorInfo& SafetensorsFile::info(const std::string& tensor) const { return entry(tensor).info; }

std::span<const std::byte> SafetensorsFile::raw(const std::string& tensor) const { return entry(tensor).data; }

Buffer<float> SafetensorsFile::read_f32(const std::string& tensor) const {
  Buffer<float> out(info(tensor).elements);
  read_f32(tensor, out);
  return out;
}

void SafetensorsFile::read_f32(const std::string& tensor, std::span<float> out) const {
  const TensorInfo& found = info(tensor);
  if (out.size() != found.elements) {
    throw Error(fmt::format("{}: tensor '{}' has {} elements ([{}]), {} are needed", name_, tensor, found.elements,
                            fmt::join(found.shape, ", "), out.size()),
                "the file belongs to a model of another size");
  }
  read_f32(tensor, 0, out);
}

void SafetensorsFile::read_f32(const std::string& tensor, std::size_t first, std::span<float> out) const {
  const auto& [info, all] = entry(tensor);
  if (first > info.elements || out.size() > info.elements - first) {
    throw Error(fmt::format("{}: tensor '{}' has {} elements, of which {} from {} on were asked for", name_, tensor,
                            info.elements, out.size(), first),
                "ask for elements that it has");
  }
  const std::size_t size = dtype_size(info.dtype);
  const std::span<const std::byte> data = all.subspan(first * size, out.size() * size);
  switch (info.dtype) {
    case Dtype::kF64:
      return convert_all<double>(data, out.data(), [](double v, std::size_t) { return static_cast<float>(v); });
    case Dtype::kF32:
      if (!data.empty()) std::memcpy(out.data(), data.data(), data.size());
      return;
    case Dtype::kF16:
      return convert_all<std::uint16_t>(data, out.data(), [](auto v, std::size_t) { return f32_from_f16(v); });
    case Dtype::kBF16:
      return convert_all<std::uint16_t>(data, out.data(), [](auto v, std::size_t) { return f32_from_bf16(v); });
    case Dtype::kF8E4M3:
      return convert_all<std::uint8_t>(data, out.data(), [](auto v, std::size_t) { return f32_from_f8_e4m3(v); });
    case Dtype::kF8E5M2:
      return convert_all<std::uint8_t>(data, out.data(), [](auto v, std::size_t) { return f32_from_f8_e5m2(v); });
    case Dtype::kBool:
      return convert_all<std::uint8_t>(data, out.data(), [](auto v, std::size_t) { return v != 0 ? 1.0f : 0.0f; });
    default:
      visit_integer(info.dtype, [&, bytes = data](auto type) {
        convert_all<decltype(type)>(bytes, out.data(), [](auto v, std::size_t) { return static_cast<float>(v); });
      });
  }
}

template <class Integer>
std::vector<Integer> SafetensorsFile::read_integers(const std::string& tensor) const {
  const Entry& found = entry(tensor);
  std::vector<Integer> out(found.info.elements);
  const bool is_bool = found.info.dtype == Dtype::kBool;
  const bool integer = visit_integer(found.info.dtype, [&](auto type) {
    convert_all<decltype(type)>(found.data, out.data(), [&](auto v, std::size_t i) {
      if (!std::in_range<Integer>(v)) {
        throw Error(fmt::format("{}: tensor '{}': element {} is {}, outside [{}, {}]", name_, tensor, i, v,
                                std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max()),
                    "the file does not hold what is expected here");
      }
      return is_bool ? static_cast<Integer>(v != 0) : static_cast<Integer>(v);
    });
  });
  if (!integer) {
    throw Error(
        fmt::format("{}: tensor '{}' is {}, whole numbers are needed", name_, tensor, dtype_name(found.info.dtype)),
        "store it as I64 or I32");
  }
  return out;
}

std::vector<std::int64_t> SafetensorsFile::read_i64(const std::string& tensor) const {
  return read_integers<std::int64_t>(tensor);
}
std::vector<std::int32_t> SafetensorsFile::read_i32(const std::string& tensor) const {
  return read_integers<std::int32_t>(tensor);
}
std::vector<std::uint8_t> SafetensorsFile::read_u8(const std::string& tensor) const {
  return read_integers<std::uint8_t>(tensor);
}

void SafetensorsWriter::add(const std::string& tensor, const Shape& shape, std::span<const float> data, Dtype stored) {
  REEL_CHECK(stored == Dtype::kF32 || stored == Dtype::kBF16 || stored == Dtype::kF16);
  add_entry(tensor, shape, data.data(), data.size(), stored);
}
void SafetensorsWriter::add(const std::string& tensor, const Shape& shape, std::span<const std::int64_t> data) {
  add_entry(tensor, shape, data.data(), data.size(), Dtype::kI64);
}
void SafetensorsWriter::add(const std::string& tensor, const Shape& shape, std::span<const std::int32_t> data) {
  add_entry(tensor, shape, data.data(), data.size(), Dtype::kI32);
}
void SafetensorsWriter::add(const std::string& tensor, const Shape& shape, std::span<const std::uint8_t> data,
                            Dtype stored) {
  REEL_CHECK(stored == Dtype::kU8 || stored == Dtype::kBool);
  add_entry(tensor, shape, data.data(), data.size(), stored);
}

void SafetensorsWriter::add_entry(const std::string& tensor, const Shape& shape, const void* data, std::size_t elements,
                                  Dtype stored) {
  if (tensor == "__metadata__") throw Error("a tensor cannot be named __metadata__", "the format reserves that name");
  if (find_invalid_utf8(tensor) != tensor.npos) throw Error("the name of a tensor is not UTF-8", "rename it");
  if (!names_.insert(tensor).second) throw Error(fmt::format("tensor '{}' is written twice", tensor), "rename one");
  std::size_t expected = 1;
  for (std::int64_t extent : shape) {
    const bool overflow = extent < 0 || __builtin_mul_overflow(expected, sized(extent), &expected);
    if (overflow) throw Error(fmt::format("tensor '{}' has the shape [{}]", tensor, fmt::join(shape, ", ")));
  }
  if (expected != elements) {
    throw Error(fmt::format("tensor '{}': shape [{}] and {} elements", tensor, fmt::join(shape, ", "), elements));
  }
  const auto narrower = [](std::size_t size, const Entry& entry) { return dtype_size(entry.stored) < size; };
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), dtype_size(stored), narrower),
                  {tensor, stored, shape, data, elements});
}

void SafetensorsWriter::set_metadata(const std::string& key, const std::string& value) {
  if (find_invalid_utf8(key) != key.npos || find_invalid_utf8(value) != value.npos) {
    throw Error(fmt::format("metadata '{}' is not UTF-8", key), "the format stores text only");
  }
  metadata_[key] = value;
}

std::string SafetensorsWriter::header() const {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string text = "{";
  if (!metadata_.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata_) text += quoted(key) + ":" + quoted(value) + ",";
    text.back() = '}';
    text += ',';
  }
  std::size_t begin = 0;
  for (const Entry& entry : entries_) {
    const std::size_t end = begin + entry.elements * dtype_size(entry.stored);
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", quoted(entry.name),
                        dtype_name(entry.stored), fmt::join(entry.shape, ","), begin, end);
    begin = end;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void SafetensorsWriter::write(const std::string& path) const {
  const std::string text = header();
  const std::uint64_t length = text.size();
  write_file_atomically(path, [&](FileWriter& file) {
    file.write(&length, sizeof(length));
    file.write(text);
    for (const Entry& entry : entries_) {
      const auto* floats = static_cast<const float*>(entry.data);
      const auto* bytes = static_cast<const std::uint8_t*>(entry.data);
      switch (entry.stored) {
        case Dtype::kBF16:
          write_converted<std::uint16_t>(file, floats, entry.elements, bf16_from_f32);
          break;
        case Dtype::kF16:
          write_converted<std::uint16_t>(file, floats, entry.elements, f16_from_f32);
          break;
        case Dtype::kBool:
          write_converted<std::uint8_t>(file, bytes, entry.elements, [](std::uint8_t v) { return v != 0; });
          break;
        default:
          file.write(entry.data, entry.elements * dtype_size(entry.stored));
      }
    }
  });
}

}  // namespace reel
