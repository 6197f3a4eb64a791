// Sizes of the caches of this machine, as the system tells them.
#pragma once

#include <cstddef>

namespace reel {

struct Caches {
  std::size_t l1 = 0, l2 = 0, l3 = 0;  // bytes: data of a core, of a core, of the cores that share it; 0: unknown
};
const Caches& caches();  // of the first core; read once

}  // namespace reel
