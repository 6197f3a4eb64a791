// Key lists out of a file that is open already; load_key_lists(path) of key_lists.h opens one.
#pragma once

#include "reel/files/safetensors.h"
#include "reel/lists/key_lists.h"

namespace reel::lists {

KeyLists load_key_lists(const SafetensorsFile& file);

}  // namespace reel::lists
