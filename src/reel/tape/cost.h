// What operations report to the recorder: arithmetic as the field counts it, bytes read and written once.
#pragma once

#include <cstdint>

#include "reel/base/record.h"

namespace reel::tape {

inline Operation elementwise_cost(const char* name, std::int64_t size, int flops, int arrays) {
  return {.name = name,
          .flops = static_cast<double>(size) * flops,
          .bytes = static_cast<double>(size) * arrays * sizeof(float)};
}

}  // namespace reel::tape
