#include "reel/tape/pool.h"

#include <algorithm>

namespace reel::tape {

Pool::~Pool() { REEL_CHECK(live_ == 0); }

void Pool::trim() {
  free_.clear();
  idle_ = 0;
}

Pool::Block::Block(Pool& pool, std::size_t floats) : pool_(pool), capacity_((floats + 15) / 16 * 16) {
  const auto found = pool.free_.lower_bound(capacity_);
  if (found != pool.free_.end() && found->first <= capacity_ + capacity_ / 8) {
    capacity_ = found->first;
    buffer_ = std::move(found->second);
    pool.free_.erase(found);
    pool.idle_ -= capacity_;
  } else {
    if (pool.idle_ > (pool.live_ + pool.idle_) / 4) pool.trim();
    if (!pool.ghost_) buffer_ = Buffer<float>(capacity_);
  }
  pool.live_ += capacity_;
  pool.peak_ = std::max(pool.peak_, pool.live_ + pool.idle_);
}

Pool::Block::~Block() {
  pool_.live_ -= capacity_;
  pool_.idle_ += capacity_;
  pool_.free_.emplace(capacity_, std::move(buffer_));
}

}  // namespace reel::tape
