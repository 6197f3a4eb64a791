// From the weights of all entries to the list of a group, exactly, though weights have lost digits. Compiled once per
// instruction set (include after hwy/foreach_target.h).
#if defined(REEL_ATTENTION_CHOOSER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef REEL_ATTENTION_CHOOSER_INL_H_
#undef REEL_ATTENTION_CHOOSER_INL_H_
#else
#define REEL_ATTENTION_CHOOSER_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "reel/attention/select_unit.h"
#include "reel/attention/top-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::attention::HWY_NAMESPACE {

// Takes the heaviest entries of a group.
class Chooser {
 public:
  Chooser(const SelectUnit& u, const TopScratch& top) : u_(u), top_(top) {}

  // List g from the weights of all entries. True weights are 1 to most_lost times these; exact(entries, weights) tells
  // them. What the list holds in any case comes first: as integers these weights are the largest there are, NaN
  // included.
  template <class Exact>
  void Choose(std::size_t g, float* weights, double most_lost, const Exact& exact) {
    const std::size_t entries = (u_.keys + u_.granularity - 1) / u_.granularity;
    const auto keep = static_cast<std::size_t>(u_.offsets[g + 1] - u_.offsets[g]);
    std::int32_t* out = u_.out + u_.offsets[g];
    if (keep == entries) std::iota(out, out + keep, 0);
    if (keep == 0 || keep == entries) return;
    const auto first = std::bit_cast<float>(0x7fffffff);
    if (u_.own != nullptr) {
      const auto [begin, end] = own_entries(u_.own, u_.first_query, g, u_.granularity);
      std::fill(weights + begin, weights + end, first);
    }
    for (const std::int32_t entry : u_.always) weights[entry] = first;
    TakeOrder(weights, entries, top_);
    const Threshold threshold = FindThreshold(entries, keep, top_);
    if (most_lost > 1 && threshold.value < std::bit_cast<std::int32_t>(0x1p120f)) {
      ChooseExactly(entries, keep, threshold, most_lost, exact, out);
    } else {
      TakeLargest(entries, threshold, out, top_);
    }
  }

 private:
  // Entries that are among the heaviest whatever they lost, and of those in doubt the heaviest by their true weights.
  template <class Exact>
  void ChooseExactly(std::size_t n, std::size_t keep, const Threshold& threshold, double most_lost, const Exact& exact,
                     std::int32_t* out) {
    const float found = std::bit_cast<float>(threshold.value);  // no weight is negative: their order is their bits
    const double spread = most_lost * (1 + 4e-5);               // exponentials and sums of f32 are rounded
    const auto least = std::bit_cast<std::int32_t>(static_cast<float>(found / spread));
    const auto sure = std::bit_cast<std::int32_t>(static_cast<float>(found * spread)) + 1;
    doubtful_.clear();
    std::size_t certain = 0;
    for (std::size_t i = 0; i < n; i += 64) {
      const std::uint64_t taken = AtLeast(top_.order, i, n, sure);
      certain += static_cast<std::size_t>(std::popcount(taken));
      for (std::uint64_t bits = AtLeast(top_.order, i, n, least) & ~taken; bits != 0; bits &= bits - 1) {
        doubtful_.push_back(static_cast<std::int32_t>(i + static_cast<std::size_t>(std::countr_zero(bits))));
      }
    }
    exact(doubtful_, exact_);
    RaiseDoubtful(keep - certain);
    std::copy_n(top_.candidates, TakeIndices(n, sure, top_), out);
  }

  // Puts the `count` heaviest of the doubtful entries, of equal weights the lower index, above all others.
  void RaiseDoubtful(std::size_t count) {
    by_weight_.resize(doubtful_.size());
    std::iota(by_weight_.begin(), by_weight_.end(), 0u);
    const auto heavier = [&](std::uint32_t a, std::uint32_t b) {
      return exact_[a] != exact_[b] ? exact_[a] > exact_[b] : a < b;
    };
    std::nth_element(by_weight_.begin(), by_weight_.begin() + static_cast<std::ptrdiff_t>(count), by_weight_.end(),
                     heavier);
    for (std::size_t i = 0; i < count; ++i) {
      top_.order[doubtful_[by_weight_[i]]] = std::numeric_limits<std::int32_t>::max();
    }
  }

  const SelectUnit& u_;
  const TopScratch& top_;
  std::vector<std::int32_t> doubtful_;
  std::vector<std::uint32_t> by_weight_;
  std::vector<float> exact_;
};

}  // namespace reel::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
