// Deals a block mask of 16 heads over 8 ranks, with reel's planner alone: no MPI, no tensors.
//
// The mask is made here: a band whose width differs from head to head, and a few blocks that everybody looks at. Yours
// comes from your model: one byte for each (head, query block, key block).
#include "reel/plan.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main() {
  using namespace reel;
  constexpr int kHeads = 16, kBlocks = 96;
  std::vector<std::uint8_t> mask;
  for (int head = 0; head < kHeads; ++head) {
    for (int row = 0; row < kBlocks; ++row) {
      for (int column = 0; column < kBlocks; ++column) {
        const bool near = std::abs(row - column) <= 2 * head, for_all = column < 2;
        mask.push_back(near || for_all ? 1 : 0);
      }
    }
  }
  const plan::Counts work = plan::count_work(plan::lists_of_mask(mask, kHeads, kBlocks, kBlocks), plan::kBlockCost);
  const plan::Partition plain = plan::contiguous(work, 4, 2);
  const plan::Partition planned = plan::make_partition(work, {.ulysses = 4, .ring = 2});
  const double before = plan::rho(plan::tiles(work, plain)), after = plan::rho(plan::tiles(work, planned));
  std::printf("slowest rank over the mean: %.3f as the heads come, %.3f planned\n", before, after);
  for (int u = 0; u < planned.ulysses; ++u) {
    std::printf("Ulysses group %d computes heads", u);
    for (const int head : planned.heads[static_cast<std::size_t>(u)]) std::printf(" %d", head);
    std::printf("\n");
  }
  return after < 1.02 && after < before ? 0 : 1;
}
