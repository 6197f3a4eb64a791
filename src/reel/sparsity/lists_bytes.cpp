#include "reel/sparsity/lists_bytes.h"

#include <algorithm>
#include <vector>

#include "reel/lists/controls.h"

namespace reel::sparsity {

double lists_bytes_of(const SparsityConfig& config, const predict::ModelHeads& shape, const lists::TokenOrder& order,
                      std::int64_t batch, double limit) {
  if (!config.on()) return 0;
  const std::vector<std::int32_t> always = lists::tokens_of_frames(order, config.keep);
  std::vector<double> held;  // tokens of each group's lists, whatever their budget is
  for (std::int64_t g = 0; g < order.groups(); ++g) {
    held.push_back(static_cast<double>(lists::held_tokens(order, g, always).size()));
  }
  const auto tokens = static_cast<double>(order.tokens()), groups = static_cast<double>(order.groups());
  const auto heads = static_cast<double>(shape.heads), clips = static_cast<double>(batch);
  double keys = 0, offsets = 0, averages = 0;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    if (config.always_dense(layer)) continue;
    const double asked = config.asked_keys(layer);
    if (!config.layer_keys.empty() && asked >= 1) continue;  // dense
    const double share = config.mode == "own"       ? 0
                         : asked > 0                ? asked
                         : config.mode == "dynamic" ? 1
                                                    : config.control_keys();
    for (const double least : held) keys += 4 * clips * heads * std::max(share * tokens, least);
    offsets += 8 * clips * heads * groups;
    if (config.mode == "static")
      averages += 4 * heads * groups * tokens * (averages == 0 ? 2 : 1);  // one is being made
    if (config.mode == "own" || config.mode == "window") break;           // all layers have the same
  }
  if (config.mode == "dynamic" && config.layer_keys.empty()) keys = std::min(keys, limit);
  return keys + offsets + averages;
}

}  // namespace reel::sparsity
