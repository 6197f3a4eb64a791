// Key lists that lie over the ranks of a group.
#pragma once

#include "reel/comm/comm.h"
#include "reel/lists/key_lists.h"

namespace reel::parallel {

// The lists of all ranks of a group, whose own ones are of some batch items each: those of all items, in rank order, on
// every rank.
lists::KeyLists gather_items(comm::Comm& group, const lists::KeyLists& own, const comm::Where& where);

}  // namespace reel::parallel
