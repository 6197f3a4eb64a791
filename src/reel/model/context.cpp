#include "reel/model/context.h"

#include <fmt/format.h>

#include "reel/model/sparse_ranks.h"
#include "reel/parallel/attention.h"

namespace reel::model {

using lists::ListsView;

ListsView Context::given_lists(int layer, const Tensor& q, const Tensor& k, const Here& here) const {
  const std::int64_t batch = here.items ? here.batch : q.dim(0);
  const std::int64_t queries = here.tokens ? here.tokens->extent() : q.dim(1);
  const std::int64_t keys = here.tokens ? queries : k.dim(1);
  if (lists.batch() != batch || lists.heads() != q.dim(2) || lists.queries() != queries || lists.keys() != keys) {
    throw Error(
        fmt::format("self-attention {} has batch {}, {} heads, {} queries, {} keys; the lists have {}, {}, {}, {}",
                    layer, batch, q.dim(2), queries, keys, lists.batch(), lists.heads(), lists.queries(), lists.keys()),
        "lists must be made for this model and this input");
  }
  if (!here.items) return lists;
  return lists.some_items(std::vector<std::int32_t>(here.items->begin(), here.items->end()));
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
  if (lists) {
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
