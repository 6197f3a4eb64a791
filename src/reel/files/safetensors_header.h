// What stands in the header of a safetensors file, checked. Used by safetensors.cpp only; the format is described in
// safetensors.h.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reel/files/safetensors.h"

namespace reel {

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    TensorInfo info;
    std::span<const std::byte> data;
  };
  std::vector<Tensor> tensors;  // in the order of their data, which they fill without overlaps and holes
  std::map<std::string, std::string> metadata;
};

// Throws Error for everything that the format does not allow; `file` names it. Names may still appear twice.
SafetensorsHeader read_safetensors_header(std::span<const std::byte> bytes, const std::string& file);

}  // namespace reel
