// The planner as a library: key lists or a block mask in, a balanced partition out. Needs neither MPI nor tensors; link
// reel::plan. examples/plan.cpp is a program that uses it.
#pragma once

#include "plan/baselines.h"
#include "plan/gather.h"
#include "plan/imbalance.h"
#include "plan/partition.h"
#include "plan/planner.h"
#include "plan/reuse.h"
#include "plan/strategy.h"
#include "plan/work.h"
