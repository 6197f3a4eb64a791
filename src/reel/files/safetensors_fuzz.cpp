#include <cstddef>
#include <cstdint>
#include <span>

#include "reel/base/error.h"
#include "reel/files/safetensors.h"

// Any bytes are either a file whose every tensor can be read, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto file = reel::SafetensorsFile::from_bytes(bytes, "fuzz");
    for (const std::string& name : file.names()) {
      if (!file.contains(name) || file.raw(name).size() != file.info(name).bytes) __builtin_trap();
      if (file.read_f32(name).size() != file.info(name).elements) __builtin_trap();
      try {
        if (file.read_i64(name).size() != file.info(name).elements) __builtin_trap();
      } catch (const reel::Error&) {  // floats
      }
      try {
        file.read_u8(name);
      } catch (const reel::Error&) {  // floats or large numbers
      }
    }
    file.info("no such tensor");
  } catch (const reel::Error&) {
  }
  return 0;
}
