// Ranks that mpirun started. The rest of reel sees them as a Comm.
//
// MPI is used from one thread (MPI_THREAD_FUNNELED). Without mpirun there is one rank and MPI is not even started; a
// build without MPI has one rank, too, and refuses to be one of several.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "reel/comm/comm.h"

namespace reel::comm {

std::string mpi_version();  // "" where it is not built in

// Begins and ends MPI; one in a process. When an exception ends it, MPI is not ended with it (that would wait for the
// other ranks): abort_all() has to follow.
class Session {
 public:
  // Messages are cut into pieces of at most `piece_bytes`, since MPI counts in 31 bits.
  explicit Session(std::int64_t piece_bytes = std::int64_t{1} << 30);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Comm& world() { return *world_; }

 private:
  std::unique_ptr<Comm> world_;
  [[maybe_unused]] int exceptions_;  // nobody asks for it where MPI is left out
};

// Ends all ranks, this one included, where MPI runs with several; otherwise returns.
void abort_all(int status);

}  // namespace reel::comm
