#include "reel/layout/cut.h"

namespace reel::layout {

Cut even_cut(std::int64_t extent, int parts) {
  Cut cut;
  for (int i = 0; i < parts; ++i)
    cut.starts.push_back(cut.starts.back() + extent / parts + (i < extent % parts ? 1 : 0));
  return cut;
}

Cut some_parts(const Cut& cut, int first, int count) {
  Cut some;
  for (int i = 0; i < count; ++i) some.starts.push_back(cut.end(first + i) - cut.begin(first));
  return some;
}

}  // namespace reel::layout
