// The memory of tensors: buffers are handed back and reused, and every byte is counted.
//
// A training step asks for the same sizes over and over; a fresh page costs more than most kernels that fill it. take()
// gives a returned buffer of the same size (or up to an eighth larger) and asks the system only when there is none.
// When more than a quarter of what is held lies unused, the unused part is given back to the system first, so what is
// held stays close to what is needed.
//
// A ghost pool counts exactly the same and holds nothing: the memory of a step is known before it runs.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "reel/base/buffer.h"

namespace reel::tape {

class Pool {
 public:
  explicit Pool(bool ghost = false) : ghost_(ghost) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Uninitialised; null data for a ghost. The pool must outlive it.
  class Block {
   public:
    Block(Pool& pool, std::size_t floats);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    float* data() { return buffer_.data(); }

   private:
    Pool& pool_;
    std::size_t capacity_;
    Buffer<float> buffer_;
  };
  std::shared_ptr<Block> take(std::size_t floats) { return std::make_shared<Block>(*this, floats); }

  bool ghost() const { return ghost_; }
  std::size_t live_bytes() const { return live_ * sizeof(float); }  // in use by tensors
  std::size_t held_bytes() const { return (live_ + idle_) * sizeof(float); }
  std::size_t peak_bytes() const { return peak_ * sizeof(float); }  // the most that was ever held
  void reset_peak() { peak_ = live_ + idle_; }
  void trim();  // gives what is unused back to the system

 private:
  bool ghost_;
  std::size_t live_ = 0, idle_ = 0, peak_ = 0;  // floats
  std::multimap<std::size_t, Buffer<float>> free_;
};

}  // namespace reel::tape
