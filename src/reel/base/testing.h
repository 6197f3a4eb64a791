// What tests of several rooms share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "reel/base/error.h"
#include "reel/base/record.h"

namespace reel {

// REEL_TEST_SEED chooses other random cases (make soak).
inline std::uint64_t test_seed() {
  const char* seed = std::getenv("REEL_TEST_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
}

// "what | hint" of the Error that work() throws.
std::string message_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

// All that a Work says.
inline std::string describe(const Work& work) {
  struct Sizes {
    static std::string exchange(const work::Exchange& e) {
      return fmt::format("group {} [{}] {}", e.group,
                         e.members == nullptr ? "" : fmt::format("{}", fmt::join(*e.members, " ")), e.bytes);
    }
    std::string operator()(const work::Product& p) const {
      return fmt::format("form {} {} {} {}", static_cast<int>(p.form), p.m, p.n, p.k);
    }
    std::string operator()(const work::Attention& a) const {
      return fmt::format("{} {} {} {} {} {} {} pairs of groups {}", static_cast<int>(a.direction), a.batch, a.heads,
                         a.queries, a.keys, a.head_dim, a.pairs, a.groups);
    }
    std::string operator()(const work::Selection& s) const { return fmt::format("{} {} {}", s.rows, s.keys, s.width); }
    std::string operator()(const work::Sweep& s) const {
      return fmt::format("{} {} {}", s.elements, s.flops, s.arrays);
    }
    std::string operator()(const work::Exchange& e) const { return exchange(e); }
    std::string operator()(const work::Wait& w) const {
      return work::kind_name(w.exchange.kind) + (" " + exchange(w.exchange));
    }
  };
  return fmt::format("{} layer {} {} {} {}: {}", phase_name(work.phase), work.layer, static_cast<int>(work.element),
                     static_cast<int>(work.precision), display_name(work), std::visit(Sizes(), work.what));
}

}  // namespace reel
