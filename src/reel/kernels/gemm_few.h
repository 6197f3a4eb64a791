// y = x W^T for few rows of x, as conditioning layers have them: W is read once, where it is.
#pragma once

#include "reel/kernels/gemm.h"

namespace reel::kernels {

// gemm for kXWt and at most most_few_rows() rows; same bits as any other way.
void gemm_few_rows(const Gemm& g, Threads& threads);
std::size_t most_few_rows();

}  // namespace reel::kernels
