// How well a predictor finds the keys that matter, against the true scores: for each query by itself, and for the list
// that a group of queries shares.
#pragma once

#include "reel/base/threads.h"
#include "reel/predict/profile.h"

namespace reel::predict {

// Means over the queries and groups looked at. Lists and keys are `size` of all; masses are over what the best carry.
struct FoundKeys {
  double recall = 0;      // share of a query's heaviest keys that are its heaviest by prediction
  double query_mass = 0;  // true mass of those, over that of the heaviest
  double group_mass = 0;  // of the list by predicted weights of all queries, over that of the list by true weights
  double list_mass = 0;   // of such a list that holds what every list does (profile.h), over the same

  void add(const FoundKeys& other, double times = 1);
};

// One head. `samples` do not count: low_q has the queries of all tokens of each group in turn.
FoundKeys found_keys(const ProfileInput& in, Threads& threads);

}  // namespace reel::predict
