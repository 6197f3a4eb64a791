// Public API: tensors that lie over many ranks, and how they change their place.
//
//   reel::comm::Session session;                       // mpirun -n 4, or one process
//   reel::comm::Comm& ranks = session.world();
//   const auto rows = reel::layout::even_cut(96, ranks.size()), columns = reel::layout::even_cut(50, ranks.size());
//   x = reel::parallel::split(tape, ranks, x, 0, rows);                               // whole -> own rows
//   x = reel::parallel::switch_shard(tape, ranks, x, 0, rows, 1, columns);            // own rows -> own columns
//   x = reel::parallel::gather(tape, ranks, x, 1, columns);                           // own columns -> whole
//
// examples/three_axes.cpp is a whole program.
#pragma once

#include "reel/comm/comm.h"           // groups of ranks
#include "reel/comm/mpi.h"            // ranks that mpirun started
#include "reel/layout/cut.h"          // where an axis is cut
#include "reel/parallel/attention.h"  // Ulysses x Ring
#include "reel/parallel/shard.h"      // split, switch_shard, gather
#include "reel/parallel/team.h"       // plans and their groups
#include "reel/parallel/zero.h"       // the sharded optimizer
#include "reel/tape/operations.h"     // what is computed between them
