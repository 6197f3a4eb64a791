#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reel/base/error.h"
#include "reel/cost/measured.h"

// Any bytes are either calls that can be placed on the cluster, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const reel::cost::Cluster cluster;
    for (const auto& call :
         reel::cost::parse_measured_calls({reinterpret_cast<const char*>(data), size}, "fuzz", cluster)) {
      if (!(call.seconds > 0) || call.call.devices < 2 || call.call.per_node < 1) __builtin_trap();
    }
  } catch (const reel::Error&) {
  }
  return 0;
}
