// Random numbers one after another, for code that makes up a scene.
#pragma once

#include <cstdint>

#include "reel/base/random.h"

namespace reel::data {

class Draws {
 public:
  explicit Draws(const Random& random) : random_(random) {}

  // Whole numbers, both ends included.
  std::int64_t whole(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_.below(next_++, static_cast<std::uint64_t>(most - least + 1)));
  }
  float between(float least, float most) { return least + (most - least) * random_.uniform(4 * next_++); }

 private:
  Random random_;
  std::uint64_t next_ = 0;  // blocks of four numbers: each draw has one of its own
};

}  // namespace reel::data
