// What the tests of the kernels share. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "reel/base/error.h"
#include "reel/base/random.h"
#include "reel/base/testing.h"
#include "reel/kernels/cpu.h"
#include "reel/kernels/rows.h"

namespace reel::kernels::testing {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Floats that end where the readable memory ends: a kernel that reads or writes past the end of its last row dies, on
// every instruction set and without a sanitizer. Filled with NaN at first, so that what is not written is seen.
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t pages = (size * sizeof(float) + page - 1) / page;
    length_ = (pages + 1) * page;
    memory_ = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REEL_CHECK(memory_ != MAP_FAILED);
    char* end = static_cast<char*>(memory_) + pages * page;
    REEL_CHECK(::mprotect(end, page, PROT_NONE) == 0);
    data_ = reinterpret_cast<float*>(end) - size;
    std::fill(begin(), this->end(), kNan);
  }
  Array(std::initializer_list<float> values) : Array(values.size()) { std::copy(values.begin(), values.end(), data_); }
  Array(const Array& other) : Array(other.size_) { std::copy(other.begin(), other.end(), data_); }
  Array& operator=(const Array&) = delete;
  ~Array() { ::munmap(memory_, length_); }

  std::size_t size() const { return size_; }
  float* data() { return data_; }
  const float* data() const { return data_; }
  float* begin() { return data_; }
  float* end() { return data_ + size_; }
  const float* begin() const { return data_; }
  const float* end() const { return data_ + size_; }
  float& operator[](std::size_t i) { return data_[i]; }
  float operator[](std::size_t i) const { return data_[i]; }
  operator std::span<float>() { return {data_, size_}; }
  operator std::span<const float>() const { return {data_, size_}; }

 private:
  std::size_t size_, length_;
  void* memory_;
  float* data_;
};

// Rows of an array that ends with the last float of the last row.
class Grid {
 public:
  Grid(std::size_t rows, std::size_t width, std::size_t gap = 0)
      : rows_(rows), width_(width), stride_(width + gap), array_(rows == 0 ? 0 : (rows - 1) * stride_ + width) {}

  operator Rows() { return {array_.data(), rows_, width_, stride_}; }
  operator ConstRows() const { return {array_.data(), rows_, width_, stride_}; }
  float* row(std::size_t i) { return array_.data() + i * stride_; }
  const float* row(std::size_t i) const { return array_.data() + i * stride_; }
  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  std::size_t stride() const { return stride_; }
  Array& array() { return array_; }
  const Array& array() const { return array_; }
  // Without the gaps.
  std::vector<double> values() const {
    std::vector<double> all(rows_ * width_);
    for (std::size_t i = 0; i < rows_; ++i) std::copy(row(i), row(i) + width_, all.data() + i * width_);
    return all;
  }
  void expect_gaps_untouched() const {  // they hold NaN from the beginning
    for (std::size_t i = 0; i + 1 < rows_; ++i) {
      for (std::size_t j = width_; j < stride_; ++j) ASSERT_TRUE(std::isnan(row(i)[j])) << "row " << i;
    }
  }

 private:
  std::size_t rows_, width_, stride_;
  Array array_;
};

inline Array random_array(std::size_t size, std::uint64_t stream, float deviation = 1.0f, float mean = 0.0f) {
  Array array(size);
  Random(test_seed() + 6, stream).fill_normal(array);
  for (float& value : array) value = mean + deviation * value;
  return array;
}
inline Grid random_matrix(std::size_t rows, std::size_t width, std::size_t gap, std::uint64_t stream,
                          float deviation = 1.0f, float mean = 0.0f) {
  Grid matrix(rows, width, gap);
  for (std::size_t i = 0; i < rows; ++i) {
    const Array values = random_array(width, stream * 100003 + i, deviation, mean);
    std::copy(values.begin(), values.end(), matrix.row(i));
  }
  return matrix;
}
inline std::vector<double> doubles(std::span<const float> x) { return {x.begin(), x.end()}; }

// One vector and one lane less or more for every instruction set, odd, and as wide as models are.
inline const std::vector<std::size_t> kWidths = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 72, 129, 1152};

// body() with every instruction set this CPU has.
template <class Body>
void for_every_target(const Body& body) {
  const std::string before = target();
  for (const std::string& name : available_targets()) {
    SCOPED_TRACE(name);
    set_target(name);
    body();
  }
  set_target(before);
}

// |got - want| <= absolute + relative * |want|; NaN and infinities where `want` has them.
inline void expect_close(std::span<const float> got, std::span<const double> want, double absolute, double relative) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else if (std::isinf(want[i])) {
      ASSERT_EQ(got[i], want[i]) << "element " << i;
    } else {
      ASSERT_NEAR(got[i], want[i], absolute + relative * std::abs(want[i])) << "element " << i << " of " << got.size();
    }
  }
}
inline void expect_close(const Grid& got, std::span<const double> want, double absolute, double relative) {
  std::vector<float> values;
  for (std::size_t i = 0; i < got.rows(); ++i) values.insert(values.end(), got.row(i), got.row(i) + got.width());
  expect_close(values, want, absolute, relative);
  got.expect_gaps_untouched();
}

// The same bits, NaN included.
inline void expect_same_bits(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// d loss / d x[i] of loss(x) by central differences in double: the error is about 1e-9 of the loss.
template <class Loss>
std::vector<double> numeric_gradient(std::vector<double> x, const Loss& loss) {
  constexpr double kStep = 1e-5;
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = loss(x);
    x[i] = at - kStep;
    const double below = loss(x);
    x[i] = at;
    gradient[i] = (above - below) / (2.0 * kStep);
  }
  return gradient;
}

inline double inner_product(std::span<const double> a, std::span<const double> b) {
  REEL_CHECK(a.size() == b.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace reel::kernels::testing
