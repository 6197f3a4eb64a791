// Weight files: named tensors in the safetensors format (https://github.com/huggingface/safetensors).
//
// A file is: header length N (u64, little endian), N bytes of JSON, then the data of the tensors, row-major, end to
// end.
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
// Offsets count from the end of the header.
//
// Reading maps the file and checks all of it before anything is handed out: whatever is wrong with a header (not JSON,
// unknown dtype, shape and size that disagree, overlaps, holes, duplicate names) is an Error that names file and
// tensor. Writing is atomic (file.h). Tensors are converted while they stream to the disk, nothing is copied before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/files/file.h"

namespace reel {

enum class Dtype { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

std::string_view dtype_name(Dtype dtype);  // as in the file: "BF16"
std::size_t dtype_size(Dtype dtype);       // bytes of an element

struct TensorInfo {
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;  // empty: a scalar, one element
  std::size_t elements = 0;
  std::size_t bytes = 0;
};

struct SafetensorsHeader;  // safetensors_header.h

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::string& path);
  // Reads from memory, which must outlive the result; `name` stands for the file in errors.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& names() const { return names_; }  // in the order of the data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // For an unknown tensor: false, or an Error that names the nearest one there is.
  bool contains(const std::string& tensor) const { return index_.contains(tensor); }
  const TensorInfo& info(const std::string& tensor) const;
  std::span<const std::byte> raw(const std::string& tensor) const;  // not aligned to more than the writer cared for

  // Any dtype as f32: rounded to nearest from F64 and the wide integers, exact from the rest. BOOL is 0 and 1.
  Buffer<float> read_f32(const std::string& tensor) const;
  void read_f32(const std::string& tensor, std::span<float> out) const;  // out has as many elements
  // Elements first, first + 1, ...: a head of a tensor that does not fit the memory.
  void read_f32(const std::string& tensor, std::size_t first, std::span<float> out) const;

  // Any integer dtype or BOOL, exactly; an Error when a value does not fit or the tensor holds floats.
  std::vector<std::int64_t> read_i64(const std::string& tensor) const;
  std::vector<std::int32_t> read_i32(const std::string& tensor) const;
  std::vector<std::uint8_t> read_u8(const std::string& tensor) const;

 private:
  struct Entry {
    TensorInfo info;
    std::span<const std::byte> data;
  };
  void index(SafetensorsHeader header);
  const Entry& entry(const std::string& tensor) const;
  template <class Integer>
  std::vector<Integer> read_integers(const std::string& tensor) const;

  MappedFile map_;
  std::string name_;
  std::vector<std::string> names_;
  std::vector<Entry> entries_;                          // as names_
  std::unordered_map<std::string, std::size_t> index_;  // into both
  std::map<std::string, std::string> metadata_;
};

// Collects references, then writes: data given to add must stay alive and unchanged until write has returned. Data is
// aligned in the file to the size of its elements (wide dtypes first, each in the order added; header padded to 8).
class SafetensorsWriter {
 public:
  using Shape = std::vector<std::int64_t>;

  // Stored as F32, or as BF16 or F16, rounded to nearest even.
  void add(const std::string& tensor, const Shape& shape, std::span<const float> data, Dtype stored = Dtype::kF32);
  void add(const std::string& tensor, const Shape& shape, std::span<const std::int64_t> data);
  void add(const std::string& tensor, const Shape& shape, std::span<const std::int32_t> data);
  // Stored as U8, or as BOOL: 0 and, for everything else, 1.
  void add(const std::string& tensor, const Shape& shape, std::span<const std::uint8_t> data,
           Dtype stored = Dtype::kU8);
  void set_metadata(const std::string& key, const std::string& value);

  void write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    Dtype stored;
    Shape shape;
    const void* data;  // float for F32, BF16, F16; else what is stored
    std::size_t elements;
  };
  void add_entry(const std::string& tensor, const Shape& shape, const void* data, std::size_t elements, Dtype stored);
  std::string header() const;

  std::vector<Entry> entries_;  // in the order of the file
  std::set<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace reel
