// Key lists out of a file that is open already; load_key_lists(path) of key_lists.h opens one.
#pragma once

#include "reel/attention/key_lists.h"
#include "reel/base/safetensors.h"

namespace reel::attention {

KeyLists load_key_lists(const SafetensorsFile& file);

}  // namespace reel::attention
