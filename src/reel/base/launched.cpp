#include "reel/base/launched.h"

#include <algorithm>
#include <cstdlib>

namespace reel {

Launched launched() {
  // Open MPI; MPICH and its kin; Slurm's own launcher, which says "8(x2),4": the first number is close enough.
  constexpr const char* kNames[][3] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
                                       {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}};
  for (const auto& [rank, size, on_host] : kNames) {
    const char *r = std::getenv(rank), *n = std::getenv(size), *here = std::getenv(on_host);
    if (r == nullptr || n == nullptr) continue;
    return {std::atoi(r), std::max(1, std::atoi(n)), here == nullptr ? 1 : std::max(1, std::atoi(here))};
  }
  return {};
}

}  // namespace reel
