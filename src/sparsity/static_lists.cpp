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

constexpr float kStaticDecay = 0.8f;

}  // namespace

// Mode static: the weights of all keys for every group, averaged over clips. Memory grows with the square of the
// tokens: a control for small clips.
void Controller::average_weights(const Seen& seen, Threads& threads) {
  const std::int64_t tokens = seen.tokens, dim = shape_.head_dim, width = shape_.heads * dim;
  const std::int64_t groups = order_->groups();
  if (tokens > 16384)
    throw Error("sparsity.mode = static is a control for clips of up to 16,384 tokens", "use dynamic");
  Buffer<float> fresh(sized(shape_.heads * groups * tokens));
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = order_->group_starts[sized(g)], queries = order_->group_starts[sized(g) + 1] - begin;
      Buffer<float> p(sized(queries * tokens));
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
      kernels::column_sums(rows, fresh.data() + (h * groups + g) * tokens, kernels::Write::kOverwrite, threads);
    }
  }
  if (kernels::any_not_finite(fresh, threads)) return;  // scores beyond f32
  Buffer<float>& averages = averages_[sized(seen.layer)];
  if (has_averages(seen.layer)) {
    for (std::size_t i = 0; i < fresh.size(); ++i)
      fresh[i] = kStaticDecay * averages[i] + (1 - kStaticDecay) * fresh[i];
  }
  averages = std::move(fresh);
}

bool Controller::has_averages(int layer) const {
  return averages_[sized(layer)].size() == sized(shape_.heads * order_->groups() * order_->tokens());
}

KeyLists Controller::static_lists(int layer, std::int64_t batch) const {
  const Buffer<float>& averages = averages_[sized(layer)];
  const std::int64_t tokens = order_->tokens(), groups = order_->groups();
  const double share = config_.keys > 0 ? config_.keys : 0.1;
  // The own tile is part of the budget, as it is where keys are chosen.
  const std::int64_t own = config_.group[0] * config_.group[1] * config_.group[2];
  const std::int64_t count = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(share * static_cast<double>(tokens))) - own, 1, tokens);
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
