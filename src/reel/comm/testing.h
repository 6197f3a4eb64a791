// The ranks that tests of many ranks (foo_ranks_test.cpp) run on. For tests only.
#pragma once

#include "reel/comm/comm.h"

namespace reel::comm::testing {

inline Comm* world_of_tests = nullptr;  // set by the main of these tests
inline Comm& world() { return *world_of_tests; }

}  // namespace reel::comm::testing
