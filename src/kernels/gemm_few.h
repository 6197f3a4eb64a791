// y = x W^T for few rows of x, as conditioning layers have them: W is read once, in place.
#pragma once

#include "kernels/gemm.h"

namespace reel::kernels {

std::size_t most_few_rows();  // that gemm_few_rows takes
void gemm_few_rows(const Gemm& g, Threads& threads);

}  // namespace reel::kernels
