// The attention of one layer of someone's model, as tensors in a safetensors file:
//
//   q, k        [heads, tokens, head_dim] after norm and RoPE, f32, f16 or bf16; a leading batch of 1 is fine
//   v           the same, for errors of outputs
//   hidden      [tokens, width], the input of the layer's projections, for the predictor `hidden`
//   rope_cos, rope_sin   [tokens, head_dim / 2], how pairs of neighbouring numbers of q and k were turned: `hidden`
//   needs
//               them to follow positions
//
// Scores are q k^T / sqrt(head_dim). Everything is checked when the file is opened but the numbers themselves, which
// are checked when a head is read. The file is mapped: a head at a time is in memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/files/safetensors.h"
#include "reel/lists/order.h"

namespace reel::study {

class QkFile {
 public:
  static QkFile open(const std::string& path);

  const std::string& name() const { return file_.name(); }
  std::int64_t heads() const { return heads_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t head_dim() const { return head_dim_; }
  std::int64_t width() const { return width_; }  // of hidden; 0: there is none
  bool has_values() const { return file_.contains("v"); }
  bool has_rope() const { return file_.contains("rope_cos"); }

  // Tokens in tiles of the grid, which must have as many tokens; {} is no grid: tiles of 64 consecutive tokens.
  lists::TokenOrder order(const std::vector<std::int64_t>& grid, const std::vector<std::int64_t>& tile) const;

  // Head h of q, k or v: row i of the result is token order[i]. Throws Error where a number is not finite.
  Buffer<float> head(const std::string& tensor, std::int64_t h, std::span<const std::int32_t> order,
                     Threads& threads) const;
  // hidden, rope_cos or rope_sin, ordered likewise.
  Buffer<float> rows(const std::string& tensor, std::span<const std::int32_t> order, Threads& threads) const;

 private:
  explicit QkFile(SafetensorsFile file) : file_(std::move(file)) {}
  std::vector<std::int64_t> shape_of(const std::string& tensor, std::size_t dimensions) const;
  Buffer<float> ordered(const std::string& tensor, std::int64_t first_row, std::int64_t width, const std::string& place,
                        std::span<const std::int32_t> order, Threads& threads) const;

  SafetensorsFile file_;
  std::int64_t heads_ = 0, tokens_ = 0, head_dim_ = 0, width_ = 0;
};

}  // namespace reel::study
