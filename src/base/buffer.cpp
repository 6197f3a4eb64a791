#include "base/buffer.h"

#include <sys/mman.h>

namespace reel {

void* allocate_aligned(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kBufferAlignment;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (whole < bytes) return nullptr;
  void* memory = std::aligned_alloc(alignment, whole);
#ifdef MADV_HUGEPAGE
  if (memory != nullptr && alignment == kHugePage)
    madvise(memory, whole, MADV_HUGEPAGE);  // a wish: failure changes nothing
#endif
  return memory;
}

}  // namespace reel
