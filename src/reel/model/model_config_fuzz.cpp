#include <cstddef>
#include <cstdint>
#include <string>

#include "reel/base/error.h"
#include "reel/model/config.h"

// Any bytes are either the config.json of a model, which reads the same when it is written again, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reel::model;
  try {
    const std::string text = config_json(parse_config({reinterpret_cast<const char*>(data), size}, "fuzz"));
    if (config_json(parse_config(text, "again")) != text) __builtin_trap();
  } catch (const reel::Error& error) {
    if (std::string_view(error.what()).starts_with("again")) __builtin_trap();
  }
  return 0;
}
