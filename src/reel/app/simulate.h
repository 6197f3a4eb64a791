// The parts of `reel simulate`: the verb itself (simulate.cpp) and what it leaves to other files.
#pragma once

#include "reel/app/app.h"

namespace reel::app {

// `simulate collective`, `simulate calibrate` and `simulate overlap`: added below the verb.
void add_simulate_collective(Verb& simulate, Action& action);
void add_simulate_calibrate(Verb& simulate, Action& action);
void add_simulate_overlap(Verb& simulate, Action& action);

}  // namespace reel::app
