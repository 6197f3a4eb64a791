// What a launcher of many processes (mpirun, srun) says to each of them, before anything is started.
#pragma once

namespace reel {

struct Launched {
  int rank = 0, ranks = 1;
  int on_host = 1;  // of the ranks, those on this host
};
Launched launched();

}  // namespace reel
