#include "model/context.h"

#include <fmt/format.h>

namespace reel::model {

Tensor Context::attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, const sparsity::Origin& origin) {
  if (lists != nullptr && (lists->batch != q.dim(0) || lists->heads != q.dim(2) || lists->queries() != q.dim(1) ||
                           lists->keys_tokens != k.dim(1))) {
    throw Error(
        fmt::format("self-attention {} has batch {}, {} heads, {} queries, {} keys; the lists have {}, {}, {}, {}",
                    layer, q.dim(0), q.dim(2), q.dim(1), k.dim(1), lists->batch, lists->heads, lists->queries(),
                    lists->keys_tokens),
        "lists must be made for this model and this input");
  }
  if (lists == nullptr && sparsity != nullptr) return sparsity->attend(tape, layer, q, k, v, origin);
  return tape::attention(tape, q, k, v, lists);
}

}  // namespace reel::model
