#include "reel/parallel/team.h"

#include <fmt/format.h>

#include <vector>

#include "reel/base/error.h"
#include "reel/comm/mpi.h"
#include "reel/layout/numbering.h"

namespace reel::parallel {

void Team::check(const layout::Degrees& plan) { layout::refuse(plan, {"auto", "gather"}, "a run"); }

Team::Team(comm::Comm& world, const layout::Degrees& plan) : plan_(plan) {
  check(plan);
  const int ranks = world.size(), degree = plan.ranks();
  if (ranks == 1 && degree > 1 && comm::mpi_version().empty()) {
    throw Error(fmt::format("the plan \"{}\" needs groups of {} ranks, and this build has no MPI", plan.text(), degree),
                "install libopenmpi-dev and build again, or leave out the plan");
  }
  if (ranks % degree != 0) {
    std::vector<int> fitting;  // the next ones
    for (const int n : {ranks / degree * degree, ranks / degree * degree + degree}) {
      if (n > 0) fitting.push_back(n);
    }
    std::vector<int> degrees;
    for (int n = 1; n <= ranks; ++n) {
      if (ranks % n == 0) degrees.push_back(n);
    }
    throw Error(fmt::format("the plan \"{}\" needs groups of {} ranks, and {} rank{} cannot be cut into them",
                            plan.text(), degree, ranks, ranks == 1 ? "" : "s"),
                fmt::format("start {} ranks (mpirun -n {}), or use a plan for {} ranks a clip",
                            fmt::join(fitting, " or "), fitting.front(), fmt::join(degrees, ", ")));
  }
  const layout::Groups groups = layout::groups_of(plan, ranks, world.rank());
  world_ = world.group(groups.world, world.name());
  sequence_ = world.group(groups.sequence, "sequence");
  data_ = world.group(groups.data, "data");
  ulysses_ = world.group(groups.ulysses, "ulysses");
  ring_ = world.group(groups.ring, "ring");
}

}  // namespace reel::parallel
