// Eight equal keys: attention returns their value, and log-sum-exp is log 8 + score.
#include <cmath>
#include <cstdio>
#include <vector>

#include "reel/attention/attention.h"

int main() {
  using namespace reel::attention;
  const std::vector<float> ones(8 * 16, 1.0f);
  std::vector<float> out(8 * 16), lse(8);
  const ConstView rows = head_major(ones.data(), 8, 1, 16);
  reel::Threads threads(1);
  forward({{.queries = 8, .keys = 8, .head_dim = 16}, rows, rows, rows, 0.25f}, {},
          {head_major(out.data(), 8, 1, 16), lse.data()}, threads);
  std::printf("out %g, lse %g\n", out[0], lse[0]);
  return std::abs(out[0] - 1.0f) < 1e-6f && std::abs(lse[0] - (std::log(8.0f) + 4.0f)) < 1e-5f ? 0 : 1;
}
