// Aligned memory that owns itself: 64-byte aligned (a cache line, an AVX-512 vector), uninitialised, movable, not
// copyable. `Buffer<float>::zeros(n)` for cleared memory. For trivial element types only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "reel/base/error.h"

namespace reel {

constexpr std::size_t kBufferAlignment = 64;

// Memory for std::free, or null. From 4 MB on it asks for huge pages: attention that gathers rows at random was mostly
// 0-10 % faster with them (12 comparisons on a noisy machine, one of them 6 % slower), since a virtual machine walks
// two page tables for every miss.
void* allocate_aligned(std::size_t bytes);

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    if (size > PTRDIFF_MAX / sizeof(T)) throw_too_large(size);
    void* memory = allocate_aligned(size * sizeof(T));
    if (memory == nullptr) throw_too_large(size);
    data_.reset(static_cast<T*>(memory));
  }
  Buffer(Buffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  static Buffer zeros(std::size_t size) {
    Buffer buffer(size);
    buffer.clear();
    return buffer;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_.get()[i]; }
  const T& operator[](std::size_t i) const { return data_.get()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  operator std::span<T>() { return {data(), size_}; }
  operator std::span<const T>() const { return {data(), size_}; }
  void clear() {
    if (size_ != 0) std::memset(static_cast<void*>(data()), 0, size_ * sizeof(T));
  }
  // At least `size` elements; what was there is lost when it has to grow.
  void grow(std::size_t size) {
    if (size > size_) *this = Buffer(size);
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  [[noreturn]] static void throw_too_large(std::size_t size) {
    throw Error(fmt::format("cannot allocate {} elements of {} bytes", size, sizeof(T)),
                "use a smaller size, or a machine with more memory");
  }
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace reel
