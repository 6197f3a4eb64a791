#include "reel/base/buffer.h"

#include <sys/mman.h>

namespace reel {

void* allocate_aligned(std::size_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  // Huge pages are taken whole; else the size is as asked, so that a sanitizer sees the first byte past the end.
  const std::size_t whole = huge ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes;
  if (whole < bytes) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePage : kBufferAlignment, whole) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (huge) madvise(memory, whole, MADV_HUGEPAGE);  // a wish: failure changes nothing
#endif
  return memory;
}

}  // namespace reel
