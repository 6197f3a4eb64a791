// The control `static`: the same keys for every clip, those that were heavy in other clips.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/kernels/elementwise.h"
#include "reel/lists/controls.h"
#include "reel/predict/weights.h"
#include "reel/sparsity/chooser.h"

namespace reel::sparsity {

using lists::KeyLists;

namespace {

constexpr float kStaticDecay = 0.8f;

}  // namespace

// Mode static: the weights of all keys for every group, averaged over clips. Memory grows with the square of the
// tokens: a control for small clips.
void Chooser::average_weights(const At& at, const Spread::Heads& q, const Spread::Heads& k) {
  const std::int64_t tokens = at.spread.tokens(), dim = shape_.head_dim, width = q.count * dim;
  const std::int64_t groups = tiles_->order.groups();
  if (tokens > 16384)
    throw Error("sparsity.mode = static is a control for clips of up to 16,384 tokens", "use dynamic");
  std::vector<float> fresh(sized(q.count * groups * tokens));
  for (std::int64_t h = 0; h < q.count; ++h) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = tiles_->order.group_starts[sized(g)],
                         queries = tiles_->order.group_starts[sized(g) + 1] - begin;
      const Buffer<float> rows =
          predict::softmax_rows({q.values + begin * width + h * dim, k.values + h * dim, width, width, queries, tokens,
                                 dim, 1.0f / std::sqrt(static_cast<float>(dim))},
                                at.threads);
      kernels::column_sums({rows.data(), sized(queries), sized(tokens)}, fresh.data() + (h * groups + g) * tokens,
                           kernels::Write::kOverwrite, at.threads);
    }
  }
  fresh = at.spread.of_all_heads(std::move(fresh), groups * tokens);
  if (kernels::any_not_finite(fresh, at.threads)) return;  // scores beyond f32
  Buffer<float>& averages = state_.averages[sized(at.seen.layer)];
  if (has_averages(at.seen.layer)) {
    for (std::size_t i = 0; i < fresh.size(); ++i)
      fresh[i] = kStaticDecay * averages[i] + (1 - kStaticDecay) * fresh[i];
  }
  averages = Buffer<float>(fresh.size());
  std::copy(fresh.begin(), fresh.end(), averages.begin());
}

bool Chooser::has_averages(int layer) const {
  return state_.averages[sized(layer)].size() == sized(shape_.heads * tiles_->order.groups() * tiles_->order.tokens());
}

KeyLists Chooser::static_lists(int layer, std::int64_t batch) const {
  const Buffer<float>& averages = state_.averages[sized(layer)];
  const std::int64_t tokens = tiles_->order.tokens(), groups = tiles_->order.groups();
  const double share = config_.control_keys();
  lists::KeyListsBuilder builder(batch, shape_.heads, tokens, tiles_->order.group_starts);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < shape_.heads * groups; ++i) {
      std::vector<float> weights(averages.data() + i * tokens, averages.data() + (i + 1) * tokens);
      const std::vector<std::int32_t> held = lists::held_tokens(tiles_->order, i % groups, tiles_->always);
      for (const std::int32_t token : held) weights[sized(token)] = std::numeric_limits<float>::infinity();
      builder.add(predict::largest(weights, std::max(sized(lists::budget_of(share, tokens)), held.size())));
    }
  }
  return builder.finish();
}

}  // namespace reel::sparsity
