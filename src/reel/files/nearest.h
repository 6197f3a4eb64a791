// The known word a user probably meant, for hints: a misspelt key, option, column or tensor.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reel {

// Letters to insert, delete, replace or swap with their neighbour to get from a to b; case does not count.
int edit_distance(std::string_view a, std::string_view b);

// The known word with the smallest distance, the first of equals; "" when none is within a third of its letters.
std::string nearest(std::string_view word, std::span<const std::string> known);

// "did you mean 'steps'?", or, when nothing is near, "known <things>: a, b, c" (the first dozen).
std::string nearest_hint(std::string_view word, std::span<const std::string> known, std::string_view things);

}  // namespace reel
