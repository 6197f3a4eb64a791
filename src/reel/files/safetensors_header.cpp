#include "reel/files/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/utf8.h"

namespace reel {

namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<DtypeFacts, 15> kDtypes = {{{Dtype::kF64, "F64", 8},
                                                 {Dtype::kF32, "F32", 4},
                                                 {Dtype::kF16, "F16", 2},
                                                 {Dtype::kBF16, "BF16", 2},
                                                 {Dtype::kF8E4M3, "F8_E4M3", 1},
                                                 {Dtype::kF8E5M2, "F8_E5M2", 1},
                                                 {Dtype::kI64, "I64", 8},
                                                 {Dtype::kI32, "I32", 4},
                                                 {Dtype::kI16, "I16", 2},
                                                 {Dtype::kI8, "I8", 1},
                                                 {Dtype::kU64, "U64", 8},
                                                 {Dtype::kU32, "U32", 4},
                                                 {Dtype::kU16, "U16", 2},
                                                 {Dtype::kU8, "U8", 1},
                                                 {Dtype::kBool, "BOOL", 1}}};

const DtypeFacts& facts(Dtype dtype) { return kDtypes[sized(dtype)]; }

// a * b, or nothing when it does not fit.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

// What the header says of a tensor, before any of it is believed.
struct Claim {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Receives the JSON of the header piece by piece and accepts exactly the structure of the format, so that neither depth
// nor duplicate keys need a second look. nlohmann's parser keeps its own stack: nesting does not recurse.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<Claim> claims;
  std::map<std::string, std::string> metadata;

  bool start_object(std::size_t) {
    if (at_ == At::kStart) {
      at_ = At::kFile;
    } else if (at_ == At::kFile && key_ == "__metadata__") {
      if (seen_metadata_) fail("__metadata__ appears twice");
      seen_metadata_ = true;
      at_ = At::kMetadata;
    } else if (at_ == At::kFile) {
      claims.emplace_back().name = key_;
      at_ = At::kTensor;
    } else {
      misplaced("an object");
    }
    return true;
  }
  bool key(std::string& key) {
    key_ = key;
    return true;
  }
  bool end_object() {
    if (at_ == At::kTensor) {
      const Claim& claim = claims.back();
      if (!claim.has_dtype) fail("dtype is missing");
      if (!claim.has_shape) fail("shape is missing");
      if (!claim.has_offsets) fail("data_offsets are missing");
    }
    at_ = at_ == At::kFile ? At::kEnd : At::kFile;
    return true;
  }
  bool start_array(std::size_t) {
    if (at_ == At::kTensor && key_ == "shape") {
      once(claims.back().has_shape);
      at_ = At::kShape;
    } else if (at_ == At::kTensor && key_ == "data_offsets") {
      once(claims.back().has_offsets);
      at_ = At::kOffsets;
    } else {
      misplaced("an array");
    }
    return true;
  }
  bool end_array() {
    if (at_ == At::kOffsets && claims.back().offsets.size() != 2) fail("data_offsets must be two numbers");
    at_ = At::kTensor;
    return true;
  }
  bool string(std::string& text) {
    if (at_ == At::kMetadata) {
      if (!metadata.emplace(key_, text).second) fail(fmt::format("__metadata__ has '{}' twice", key_));
    } else if (at_ == At::kTensor && key_ == "dtype") {
      once(claims.back().has_dtype);
      claims.back().dtype = text;
    } else {
      misplaced(fmt::format("the text \"{}\"", text));
    }
    return true;
  }
  bool number_unsigned(std::uint64_t number) {
    if (at_ == At::kShape) {
      claims.back().shape.push_back(number);
    } else if (at_ == At::kOffsets) {
      claims.back().offsets.push_back(number);
    } else {
      misplaced("a number");
    }
    return true;
  }
  bool number_integer(std::int64_t number) {
    if (at_ == At::kShape || at_ == At::kOffsets) fail(fmt::format("{} has the negative number {}", key_, number));
    return misplaced("a number");
  }
  bool number_float(double, const std::string& text) {
    if (at_ == At::kShape || at_ == At::kOffsets) fail(fmt::format("{} has {}, not a whole number", key_, text));
    return misplaced("a number");
  }
  bool boolean(bool) { return misplaced("a boolean"); }
  bool null() { return misplaced("null"); }
  bool binary(std::vector<std::uint8_t>&) { return misplaced("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: the header is not valid JSON near its byte {}", file_, position),
                "the file is damaged or not a safetensors file");
  }

 private:
  enum class At { kStart, kFile, kMetadata, kTensor, kShape, kOffsets, kEnd };

  [[noreturn]] void fail(const std::string& what) const {
    const bool in_tensor = at_ == At::kTensor || at_ == At::kShape || at_ == At::kOffsets;
    const std::string where = in_tensor ? fmt::format("tensor '{}': ", claims.back().name) : "the header: ";
    throw Error(fmt::format("{}: {}{}", file_, where, what), "the file is damaged, or its writer is wrong");
  }
  bool misplaced(const std::string& what) const {
    if (at_ == At::kTensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      fail(fmt::format("unknown property '{}'", key_));
    }
    fail(at_ == At::kStart ? fmt::format("is {}, not an object", what)
                           : fmt::format("'{}' cannot be or hold {}", key_, what));
  }
  void once(bool& seen) const {
    if (seen) fail(fmt::format("{} appears twice", key_));
    seen = true;
  }

  const std::string& file_;
  std::string key_;
  At at_ = At::kStart;
  bool seen_metadata_ = false;
};

// Size and place of the tensor, checked. `room`: bytes of data in the file.
TensorInfo believe(const Claim& claim, std::uint64_t room, const std::string& file) {
  const auto fail = [&](const std::string& what, const char* hint = "the file is damaged, or its writer is wrong") {
    throw Error(fmt::format("{}: tensor '{}': {}", file, claim.name, what), hint);
  };
  const auto dtype = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.name == claim.dtype; });
  if (dtype == kDtypes.end()) {
    fail(fmt::format("unknown dtype '{}'", claim.dtype), "store it as F32, BF16 or another dtype that reel reads");
  }
  std::optional<std::uint64_t> elements = 1;
  TensorInfo info;
  info.dtype = dtype->dtype;
  for (std::uint64_t extent : claim.shape) {
    elements = product(*elements, extent);
    if (!elements || extent > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) fail("the shape overflows");
    info.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::optional<std::uint64_t> bytes = product(*elements, dtype->size);
  const std::uint64_t begin = claim.offsets[0], end = claim.offsets[1];
  if (!bytes) fail("the shape overflows");
  if (begin > end) fail(fmt::format("data_offsets [{}, {}] end before they begin", begin, end));
  if (end > room) {
    fail(fmt::format("data_offsets [{}, {}] reach beyond the {} bytes of data", begin, end, room),
         "the file is cut off: copy or download it again");
  }
  if (end - begin != *bytes) {
    fail(fmt::format("data_offsets [{}, {}] hold {} bytes, the shape needs {}", begin, end, end - begin, *bytes));
  }
  info.elements = *elements;
  info.bytes = *bytes;
  return info;
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return facts(dtype).name; }
std::size_t dtype_size(Dtype dtype) { return facts(dtype).size; }

SafetensorsHeader read_safetensors_header(std::span<const std::byte> bytes, const std::string& file) {
  const auto fail = [&](const std::string& what, const char* hint = "the file is damaged or not a safetensors file") {
    throw Error(fmt::format("{}: {}", file, what), hint);
  };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length)) fail(fmt::format("only {} bytes, too short for a safetensors file", bytes.size()));
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kLargestHeader) fail(fmt::format("header of {} bytes, more than {}", length, kLargestHeader));
  if (length > bytes.size() - sizeof(length)) {
    fail(fmt::format("the header of {} bytes does not end within the {} bytes of the file", length, bytes.size()),
         "the file is cut off or not a safetensors file: copy or download it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const std::span<const std::byte> data = bytes.subspan(sizeof(length) + length);
  if (const auto bad = find_invalid_utf8(text); bad != text.npos) {
    fail(fmt::format("the header is not UTF-8 at its byte {}", bad));
  }
  if (!text.starts_with('{')) fail("the header does not begin with '{'");
  HeaderReader header(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &header);

  std::vector<std::size_t> order(header.claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<TensorInfo> infos;
  for (const Claim& claim : header.claims) infos.push_back(believe(claim, data.size(), file));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return header.claims[a].offsets < header.claims[b].offsets; });
  SafetensorsHeader result;
  result.metadata = std::move(header.metadata);
  std::uint64_t filled = 0;
  const Claim* previous = nullptr;
  for (std::size_t i : order) {
    Claim& claim = header.claims[i];
    if (claim.offsets[0] < filled) {
      fail(fmt::format("tensors '{}' and '{}' overlap at byte {} of the data", previous->name, claim.name,
                       claim.offsets[0]));
    }
    if (claim.offsets[0] > filled) {
      fail(fmt::format("tensor '{}': {} bytes before it belong to no tensor", claim.name, claim.offsets[0] - filled));
    }
    filled = claim.offsets[1];
    previous = &claim;
    result.tensors.push_back(
        {claim.name, std::move(infos[i]), data.subspan(claim.offsets[0], claim.offsets[1] - claim.offsets[0])});
  }
  if (filled != data.size()) fail(fmt::format("{} bytes at the end belong to no tensor", data.size() - filled));
  return result;
}

}  // namespace reel
