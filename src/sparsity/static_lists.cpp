// The control `static`: the same keys for every clip, those that were heavy in other clips.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/softmax.h"
#include "sparsity/controller.h"
#include "sparsity/lists.h"

namespace reel::sparsity {

using attention::KeyLists;

namespace {

std::size_t sized(std::int64_t n) { return static_cast<std::size_t>(n); }

constexpr double kStaticDecay = 0.8;

}  // namespace

// Mode static: the weights of all keys for every group, averaged over clips. Memory grows with the square of the
// tokens: a control for small clips.
void Controller::average_weights(const Seen& seen, Threads& threads) {
  const std::int64_t tokens = seen.tokens, dim = shape_.head_dim, width = shape_.heads * dim;
  const std::int64_t groups = order_->groups();
  if (tokens > 16384)
    throw Error("sparsity.mode = static is a control for clips of up to 16,384 tokens", "use dynamic");
  Buffer<float>& averages = averages_[sized(seen.layer)];
  const bool first = averages.size() == 0;
  if (first) averages = Buffer<float>::zeros(sized(shape_.heads * groups * tokens));
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = order_->group_starts[sized(g)], queries = order_->group_starts[sized(g) + 1] - begin;
      Buffer<float> p(sized(queries * tokens)), weights(sized(tokens));
      kernels::gemm({.form = kernels::Form::kXWt,
                     .rows = sized(queries),
                     .columns = sized(tokens),
                     .depth = sized(dim),
                     .a = {seen.q + begin * width + h * dim, sized(width)},
                     .b = {seen.k + h * dim, sized(width)},
                     .c = p.data(),
                     .c_stride = sized(tokens)},
                    threads);
      kernels::scale(1.0f / std::sqrt(static_cast<float>(dim)), p, p, threads);
      const kernels::Rows rows(p.data(), sized(queries), sized(tokens));
      kernels::softmax(rows, rows, nullptr, threads);
      kernels::column_sums(rows, weights.data(), kernels::Write::kOverwrite, threads);
      float* average = averages.data() + (h * groups + g) * tokens;
      const float decay = first ? 0.0f : static_cast<float>(kStaticDecay);
      for (std::int64_t j = 0; j < tokens; ++j) average[j] = decay * average[j] + (1 - decay) * weights[sized(j)];
    }
  }
}

KeyLists Controller::static_lists(int layer, std::int64_t batch) const {
  const Buffer<float>& averages = averages_[sized(layer)];
  const std::int64_t tokens = order_->tokens(), groups = order_->groups();
  const double share = config_.keys > 0 ? config_.keys : 0.1;
  const std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(share * static_cast<double>(tokens))), 1, tokens);
  attention::KeyListsBuilder builder(batch, shape_.heads, tokens, order_->group_starts);
  std::vector<std::int32_t> keys(sized(tokens));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < shape_.heads * groups; ++i) {
      const float* average = averages.data() + i * tokens;
      std::iota(keys.begin(), keys.end(), 0);
      std::nth_element(keys.begin(), keys.begin() + (count - 1), keys.end(), [&](std::int32_t a, std::int32_t c) {
        return average[a] != average[c] ? average[a] > average[c] : a < c;
      });
      std::vector<std::int32_t> list(keys.begin(), keys.begin() + count);
      std::sort(list.begin(), list.end());
      builder.add(list);
    }
  }
  return with_own_tile(builder.finish(), always_);
}

}  // namespace reel::sparsity
