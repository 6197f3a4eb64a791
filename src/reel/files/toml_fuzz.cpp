#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "reel/base/error.h"
#include "reel/files/toml.h"

namespace {

template <class Work>
void allow_error(const Work& work) {
  try {
    work();
  } catch (const reel::Error&) {
  }
}

}  // namespace

// The first line is an override, the rest the file: both are read, or refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  allow_error([&] {
    reel::Toml toml = reel::Toml::parse(input.substr(std::min(end + 1, input.size())), "fuzz");
    allow_error([&] { toml.set(std::string(input.substr(0, end))); });
    allow_error([&] { toml.integer("integer"); });
    allow_error([&] { toml.integer_in("train.steps", 1, 100); });
    allow_error([&] { toml.number("number"); });
    allow_error([&] { toml.boolean("boolean"); });
    allow_error([&] { toml.string("string"); });
    allow_error([&] { toml.integers("integers"); });
    allow_error([&] { toml.numbers("numbers", {}); });
    allow_error([&] { toml.strings("model.tags"); });
    allow_error([&] {
      for (std::size_t i = 0; i < toml.size("level"); ++i) toml.string("level[" + std::to_string(i) + "].name");
    });
    allow_error([&] {
      for (const std::string& table : toml.tables("")) toml.has(table + ".key");
    });
    allow_error([&] { toml.check_all_used(); });
    reel::Toml::parse(toml.text(), "again");
  });
  return 0;
}
