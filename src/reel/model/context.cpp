#include "reel/model/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/base/sized.h"
#include "reel/parallel/attention.h"

namespace reel::model {

using lists::ListsView;

std::vector<std::int32_t> Context::order(const std::array<std::int64_t, 3>& grid,
                                         const std::vector<std::int64_t>& cuts) {
  follows_order_ = true;
  if (sparsity) return sparsity->order(grid, cuts).raster;
  if (lists.all == nullptr || lists.all->in_raster_order()) return {};
  lists.all->check();
  const std::vector<std::int32_t>& order = lists.all->order;
  const std::int64_t places = grid[1] * grid[2], tokens = grid[0] * places;
  if (static_cast<std::int64_t>(order.size()) != tokens) {
    throw Error(fmt::format("the lists have an order of {} tokens, the clip has {} x {} x {} = {}", order.size(),
                            grid[0], grid[1], grid[2], tokens),
                "lists must be made for this model and this input");
  }
  for (const std::int64_t frame : cuts) {  // given frames and others are modulated in runs of tokens
    const auto stays = [&](std::int32_t token) { return token < frame * places; };
    if (!std::all_of(order.begin(), order.begin() + frame * places, stays)) {
      throw Error(fmt::format("the order of the lists mixes tokens of frames before and from {}, where given frames "
                              "and others meet",
                              frame),
                  "use lists of a clip with the same frames given");
    }
  }
  return order;
}

layout::Cut Context::resting_tokens(std::int64_t tokens, int ranks) const {
  if (sparsity) return layout::resting_cut(sparsity->order().group_starts, ranks);
  // Lists of another clip are refused where they are used.
  if (lists.here && lists.here.queries() == tokens) return layout::resting_cut(lists.here.group_starts(), ranks);
  return layout::even_cut(tokens, ranks);
}

ListsView Context::given_lists(int layer, const Tensor& q, const Tensor& k, const Here& here) const {
  if (sparsity) throw Error("there are key lists, and sparsity chooses others", "use one of them");
  if (!follows_order_ && !lists.all->in_raster_order()) {
    throw Error("the lists are of tokens in an order of their own, which this model does not follow",
                "family wan puts its tokens in that order; others take lists in raster order");
  }
  if (lists.all->head_dim != 0 && lists.all->head_dim != q.dim(3)) {
    throw Error(fmt::format("self-attention {} has heads of {} floats, the lists are of heads of {}", layer, q.dim(3),
                            lists.all->head_dim),
                "lists must be made for this model and this input");
  }
  const auto* tokens = std::get_if<TokensHere>(&here);
  const auto* sequences = std::get_if<SequencesHere>(&here);
  const std::int64_t batch = sequences != nullptr ? sequences->batch : q.dim(0);
  const std::int64_t queries = tokens != nullptr ? tokens->cut.extent() : q.dim(1);
  const std::int64_t keys = tokens != nullptr ? queries : k.dim(1);
  if (lists.here.batch() != batch || lists.here.heads() != q.dim(2) || lists.here.queries() != queries ||
      lists.here.keys() != keys) {
    throw Error(
        fmt::format("self-attention {} has batch {}, {} heads, {} queries, {} keys; the lists have {}, {}, {}, {}",
                    layer, batch, q.dim(2), queries, keys, lists.here.batch(), lists.here.heads(), lists.here.queries(),
                    lists.here.keys()),
        "lists must be made for this model and this input");
  }
  if (tokens != nullptr) return parallel::share_of(*team, tokens->cut, q.dim(2)).of(lists.here);
  if (sequences == nullptr) return lists.here;
  const std::span<const std::int32_t> items = sequences->items;
  if (team->plan().both) return lists.here.some_items(items);
  const layout::Cut& cut = sequences->cut;
  const int rank = team->sequence().rank();
  return lists.here.some_items(items.subspan(sized(cut.begin(rank)), sized(cut.size(rank))));
}

// What one rank would choose, of what this rank computes: the ranks find out together (sparsity/spread.h).
ListsView Context::chosen_lists(int layer, const Tensor& q, const Tensor& k, const predict::Origin& origin,
                                const TokensHere* here) {
  if (tape.ghost()) return {};
  const bool together = team != nullptr && (here != nullptr || (pass.training() && team->world().size() > 1));
  const sparsity::Spread spread(tape, together ? team : nullptr, q.shape(),
                                here != nullptr ? here->cut : layout::even_cut(q.dim(1), 1), pass);
  return sparsity->lists(tape, layer, q, k, origin, spread);
}

Tensor Context::attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, const predict::Origin& origin,
                       const Here& here) {
  const auto* tokens = std::get_if<TokensHere>(&here);
  const ListsView keys = lists.here ? given_lists(layer, q, k, here)
                         : sparsity ? chosen_lists(layer, q, k, origin, tokens)
                                    : ListsView();
  if (tokens != nullptr) return parallel::attention(tape, *team, q, k, v, tokens->cut, keys);
  const auto* sequences = std::get_if<SequencesHere>(&here);
  if (sequences != nullptr && team->plan().both) {
    return parallel::attention_of_items(tape, *team, q, k, v, sequences->cut, keys);
  }
  return tape::attention(tape, q, k, v, keys);
}

}  // namespace reel::model
