// Files of q and k for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "reel/base/random.h"
#include "reel/files/safetensors.h"

namespace reel::study::testing {

// A path that is gone with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& name) : path_(::testing::TempDir() + "reel_" + name) {}
  ~TempFile() { std::remove(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }
  const char* c_str() const { return path_.c_str(); }

 private:
  std::string path_;
};

// Tensors q, k, v and whatever else, filled with normal numbers.
struct Tensors {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
    Dtype dtype = Dtype::kF32;
  };
  std::vector<Tensor> all;

  Tensors(std::int64_t heads, std::int64_t tokens, std::int64_t dim, std::uint64_t seed = 1) {
    for (const char* name : {"q", "k", "v"}) add(name, {heads, tokens, dim}, seed);
    for (float& x : (*this)["q"].values) x *= 2;
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape, std::uint64_t seed = 1) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    all.push_back({name, shape, std::vector<float>(static_cast<std::size_t>(elements))});
    Random(seed, all.size()).fill_normal(all.back().values);
  }
  void remove(const std::string& name) {
    std::erase_if(all, [&](const Tensor& each) { return each.name == name; });
  }
  Tensor& operator[](const std::string& name) {
    for (Tensor& each : all) {
      if (each.name == name) return each;
    }
    throw std::runtime_error("no " + name);
  }
  void write(const std::string& path) const {
    SafetensorsWriter writer;
    for (const Tensor& each : all) writer.add(each.name, each.shape, std::span(each.values), each.dtype);
    writer.write(path);
  }
};

}  // namespace reel::study::testing
