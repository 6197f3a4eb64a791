// The planner as a library: key lists or a block mask in, a balanced partition out. Needs neither MPI nor tensors; link
// reel::plan. examples/plan.cpp is a program that uses it.
#pragma once

#include "reel/plan/baselines.h"
#include "reel/plan/counts.h"
#include "reel/plan/gather.h"
#include "reel/plan/imbalance.h"
#include "reel/plan/partition.h"
#include "reel/plan/planner.h"
#include "reel/plan/reuse.h"
#include "reel/plan/strategy.h"
