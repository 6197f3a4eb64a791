// The slow and obvious attention in double precision that tests compare with. Contracts as in attention.h.
#pragma once

#include <vector>

#include "reel/attention/attention.h"

namespace reel::attention {

// All arrays contiguous in the order [batch][heads][tokens][head_dim].
struct ReferenceResult {
  std::vector<double> out, lse;  // lse [batch][heads][queries]
  std::vector<double> dq, dk, dv;
};

ReferenceResult reference_forward(const Input& in, const lists::KeyLists& lists);
// Adds dq, dk, dv to a forward result.
void reference_backward(const Input& in, const lists::KeyLists& lists, ConstView dout, ReferenceResult& result);

}  // namespace reel::attention
