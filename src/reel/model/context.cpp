#include "reel/model/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "reel/model/sparse_ranks.h"
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
  const std::int64_t batch = here.items ? here.batch : q.dim(0);
  const std::int64_t queries = here.tokens ? here.tokens->extent() : q.dim(1);
  const std::int64_t keys = here.tokens ? queries : k.dim(1);
  if (lists.here.batch() != batch || lists.here.heads() != q.dim(2) || lists.here.queries() != queries ||
      lists.here.keys() != keys) {
    throw Error(
        fmt::format("self-attention {} has batch {}, {} heads, {} queries, {} keys; the lists have {}, {}, {}, {}",
                    layer, batch, q.dim(2), queries, keys, lists.here.batch(), lists.here.heads(), lists.here.queries(),
                    lists.here.keys()),
        "lists must be made for this model and this input");
  }
  if (!here.items) return lists.here;
  return lists.here.some_items(std::vector<std::int32_t>(here.items->begin(), here.items->end()));
}

// What one rank would choose: the ranks find out together (sparse_ranks.h).
std::shared_ptr<const lists::KeyLists> Context::chosen_lists(int layer, const Tensor& q, const Tensor& k,
                                                             const predict::Origin& origin, const Here& here) {
  if (tape.ghost()) return nullptr;
  const layout::Cut tokens = here.tokens ? *here.tokens : layout::even_cut(q.dim(1), 1);
  SparseRanks ranks(tape, *team, q, tokens, pass);
  return sparsity->lists(tape, layer, q, k, origin, &ranks);
}

Tensor Context::attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, const predict::Origin& origin,
                       const Here& here) {
  ListsView keys;
  if (lists.here) {
    keys = given_lists(layer, q, k, here);
  } else if (sparsity) {
    const bool together = pass.training() && team != nullptr && team->world().size() > 1;
    if (!here.tokens && !together) return sparsity->attend(tape, layer, q, k, v, origin);
    keys = chosen_lists(layer, q, k, origin, here);
  }
  if (here.tokens) {
    const parallel::Share share = parallel::share_of(*team, *here.tokens, q.dim(2));
    return parallel::attention(tape, *team, q, k, v, *here.tokens, share.of(keys));
  }
  if (here.items_cut) return parallel::attention_of_items(tape, *team, q, k, v, *here.items_cut, keys);
  return tape::attention(tape, q, k, v, keys);
}

}  // namespace reel::model
