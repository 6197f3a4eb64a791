// What verbs say of a file of key lists that does not know everything.
#pragma once

#include <string>

#include "reel/lists/ordered_lists.h"

namespace reel::app {

// A line on standard error where the lists of the file do not know the order of their tokens.
void tell_assumed_order(const std::string& path, const lists::OrderedLists& lists);

// Floats of a head: what the file says (`known`, 0: nothing), else `given` by --head-dim (0: not given), else
// `assumed`, with a line on standard error. An Error where the file and the option contradict each other.
std::int64_t head_dim_of(const std::string& path, std::int64_t known, std::int64_t given, std::int64_t assumed);

}  // namespace reel::app
