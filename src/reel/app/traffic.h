// --traffic: what every rank sent.
#pragma once

#include <string>

#include "reel/comm/comm.h"

namespace reel::app {

// Rank 0 writes the file; nothing where `path` is empty. All ranks call it.
void write_traffic(comm::Comm& world, const std::string& path);

}  // namespace reel::app
