#include "reel/study/qk_file.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/kernels/gather.h"

namespace reel::study {

namespace {

constexpr const char* kHint = "q and k are [heads, tokens, head_dim], of one layer and one clip, after RoPE";

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16;
}

}  // namespace

// Without leading dimensions of 1.
std::vector<std::int64_t> QkFile::shape_of(const std::string& tensor, std::size_t dimensions) const {
  const TensorInfo& info = file_.info(tensor);
  std::vector<std::int64_t> shape = info.shape;
  while (shape.size() > dimensions && shape.front() == 1) shape.erase(shape.begin());
  if (shape.size() != dimensions) {
    throw Error(fmt::format("{}: tensor '{}' is [{}]", name(), tensor, fmt::join(info.shape, ", ")),
                dimensions == 3 ? kHint : "it is a row a token, of one clip");
  }
  if (info.elements == 0) {
    throw Error(fmt::format("{}: tensor '{}' is empty: [{}]", name(), tensor, fmt::join(info.shape, ", ")), kHint);
  }
  if (!is_float(info.dtype)) {
    throw Error(fmt::format("{}: tensor '{}' holds {}", name(), tensor, dtype_name(info.dtype)),
                "save it as float32, float16 or bfloat16");
  }
  return shape;
}

QkFile QkFile::open(const std::string& path) {
  QkFile out(SafetensorsFile::open(path));
  for (const char* tensor : {"q", "k"}) {
    if (!out.file_.contains(tensor)) {
      throw Error(fmt::format("{}: there is no tensor '{}'; found: {}", path, tensor,
                              out.file_.names().empty() ? "none at all"
                                                        : fmt::format("{}", fmt::join(out.file_.names(), ", "))),
                  kHint);
    }
  }
  const std::vector<std::int64_t> q = out.shape_of("q", 3);
  for (const char* tensor : {"k", "v"}) {
    if (!out.file_.contains(tensor)) continue;
    const std::vector<std::int64_t> other = out.shape_of(tensor, 3);
    if (other != q) {
      throw Error(
          fmt::format("{}: q is [{}], but {} is [{}]", path, fmt::join(q, ", "), tensor, fmt::join(other, ", ")),
          other[0] != q[0] ? "repeat the keys and values of heads that share them, so that all have as many"
                           : "this is about self-attention: as many keys as queries");
    }
  }
  out.heads_ = q[0], out.tokens_ = q[1], out.head_dim_ = q[2];
  if (out.tokens_ > std::numeric_limits<std::int32_t>::max()) {
    throw Error(fmt::format("{}: {} tokens", path, out.tokens_), "tokens are counted in 32 bits");
  }
  if (out.file_.contains("hidden")) {
    const std::vector<std::int64_t> hidden = out.shape_of("hidden", 2);
    if (hidden[0] != out.tokens_) {
      throw Error(fmt::format("{}: hidden has {} rows for {} tokens", path, hidden[0], out.tokens_),
                  "hidden is [tokens, width], the input of the layer that q and k come from");
    }
    out.width_ = hidden[1];
  }
  for (const auto& [one, other] : {std::pair("rope_cos", "rope_sin"), {"rope_sin", "rope_cos"}}) {
    if (!out.file_.contains(one)) continue;
    if (!out.file_.contains(other)) {
      throw Error(fmt::format("{}: {} without {}", path, one, other),
                  "both say how pairs were turned, or neither is there");
    }
    if (const auto shape = out.shape_of(one, 2); shape != std::vector<std::int64_t>{out.tokens_, out.head_dim_ / 2}) {
      throw Error(fmt::format("{}: {} is [{}]", path, one, fmt::join(shape, ", ")),
                  fmt::format("it is [tokens, head_dim / 2]: [{}, {}]", out.tokens_, out.head_dim_ / 2));
    }
  }
  return out;
}

lists::TokenOrder QkFile::order(const std::vector<std::int64_t>& grid, const std::vector<std::int64_t>& tile) const {
  constexpr std::int64_t kGroup = 64;
  if (grid.empty()) return lists::tile_order({tokens_, 1, 1}, {kGroup, 1, 1});
  REEL_CHECK(grid.size() == 3 && tile.size() == 3);
  double cells = 1;
  for (const std::int64_t axis : grid) cells *= static_cast<double>(axis);
  if (cells != static_cast<double>(tokens_)) {
    const bool turned = cells == static_cast<double>(heads_);
    throw Error(
        fmt::format("a grid of {} has {:.0f} tokens, but q of {} has {}", fmt::join(grid, "x"), cells, name(), tokens_),
        turned ? fmt::format("q seems to be [tokens, heads, head_dim]: save q.transpose(0, 1)")
               : "the grid is in tokens, frames x rows x columns after patching, without text tokens");
  }
  return lists::tile_order({grid[0], grid[1], grid[2]}, {tile[0], tile[1], tile[2]});
}

Buffer<float> QkFile::ordered(const std::string& tensor, std::int64_t first_row, std::int64_t width,
                              const std::string& place, std::span<const std::int32_t> order, Threads& threads) const {
  Buffer<float> raw(sized(tokens_ * width)), out(order.size() * sized(width));
  file_.read_f32(tensor, sized(first_row * width), raw);
  if (kernels::any_not_finite(raw, threads)) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (std::isfinite(raw[i])) continue;
      throw Error(fmt::format("{}: {}{}, token {}, number {} is {}", name(), tensor, place, i / sized(width),
                              i % sized(width), raw[i]),
                  "dump a pass whose numbers are finite; float16 overflows beyond 65504, bfloat16 does not");
    }
  }
  kernels::gather_rows({raw.data(), sized(tokens_), sized(width)}, order, {out.data(), order.size(), sized(width)},
                       threads);
  return out;
}

Buffer<float> QkFile::head(const std::string& tensor, std::int64_t h, std::span<const std::int32_t> order,
                           Threads& threads) const {
  return ordered(tensor, h * tokens_, head_dim_, fmt::format(" of head {}", h), order, threads);
}

Buffer<float> QkFile::rows(const std::string& tensor, std::span<const std::int32_t> order, Threads& threads) const {
  return ordered(tensor, 0, tensor == "hidden" ? width_ : head_dim_ / 2, "", order, threads);
}

}  // namespace reel::study
