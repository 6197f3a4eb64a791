#include <cstddef>
#include <cstdint>
#include <span>

#include "reel/base/error.h"
#include "reel/lists/ordered_lists.h"
#include "reel/lists/view.h"

// Any bytes are either key lists that everything else may trust, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reel::lists;
  try {
    const auto file = reel::SafetensorsFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
    const OrderedLists lists = load_key_lists(file);
    if (!(lists.density() >= 0 && lists.density() <= 1)) __builtin_trap();
    if (lists.keys_tokens > 1 << 20) return 0;  // memory by the token, which the lists need not pay for
    transpose(lists);
    const ListsView view = lists;
    const std::int64_t middle = lists.keys_tokens / 3;
    if (view.some_keys(0, middle).pairs() + view.some_keys(middle, view.keys()).pairs() != lists.pairs()) {
      __builtin_trap();
    }
  } catch (const reel::Error&) {
  }
  return 0;
}
