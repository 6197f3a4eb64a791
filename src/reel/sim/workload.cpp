#include "reel/sim/workload.h"

namespace reel::sim {

const char* stream_name(Stream stream) {
  constexpr const char* kNames[] = {"compute",          "data",      "send forward", "receive forward", "send backward",
                                    "receive backward", "ring send", "ring receive"};
  return kNames[static_cast<int>(stream)];
}

const char* category_name(Category category) {
  constexpr const char* kNames[] = {"compute",  "tensor", "context", "expert",
                                    "pipeline", "data",   "bubble",  "optimizer"};
  return kNames[static_cast<int>(category)];
}

Category stream_category(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return Category::kCompute;
    case Stream::kData:
      return Category::kData;
    case Stream::kRingSend:
    case Stream::kRingReceive:
      return Category::kContext;
    default:
      return Category::kPipeline;
  }
}

}  // namespace reel::sim
