#include "reel/plan/planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reel/base/random.h"
#include "reel/base/sized.h"
#include "reel/plan/baselines.h"
#include "reel/plan/group_work.h"
#include "reel/plan/imbalance.h"

namespace reel::plan {

namespace {

// In operations of the search, of which there are one or less in a nanosecond for rows, a third of that for the few
// heads: 0.7 ms for heads, up to 3 ms for the rows of all groups. Small cases that cannot be even use all of it.
constexpr std::int64_t kHeadEffort = 220'000, kRowEffort = 3'000'000;
constexpr std::int64_t kShakeEffort = 400'000;  // for rows whose sums alone count
// Not worth another move of a ring, nor dealing anew what is nearly even where it is; and of sums, which are easier.
constexpr double kNearlyEven = 1.002, kEven = 1.0002;
constexpr int kRounds = 4;  // of rows, keys, rows, ...: the third rarely changes anything
// Other deals of the heads that are tried where rows of the best one cannot be made even, and up to how many (head,
// row, column) triples: where there are more, rows have deals enough. Of 100 masks of 4 to 9 heads x 4 blocks that can
// be perfectly even on 2 x 2, 100 are found, 70 without.
constexpr int kHeadDeals = 24;
constexpr std::int64_t kFewTriples = 1 << 14;

void check(const Counts& work, const Options& options) {
  if (options.ulysses < 1 || options.ring < 1)
    throw Error(fmt::format("a partition over {} x {} ranks", options.ulysses, options.ring),
                "both degrees are at least 1");
  if (!(options.target >= 1)) throw Error(fmt::format("a target of {}", options.target), "perfect balance is 1");
  if (options.present == nullptr) return;
  check(*options.present, work);
  if (options.present->ulysses != options.ulysses || options.present->ring != options.ring)
    throw Error("the present partition has other degrees than the wanted one");
}

Items head_items(const Counts& work, int visits) {
  const std::vector<double> weight = work.head_work(visits);
  // Relative to the mean, since work may be nanoseconds and weights are floats.
  Items items{work.heads, 1, {}};
  double total = 0;
  for (const double w : weight) total += w;
  for (const double w : weight) items.weight.push_back(static_cast<float>(w / total));
  return items;
}

struct Dealt {
  Indices rows, keys;
  double ratio = std::numeric_limits<double>::infinity();
};

// Rows with equal counts where that is good enough, else with any.
double improve_rows(const Items& items, int ring, Effort& effort, Indices& rows) {
  const double equal = refine(items, ring, Sizes::kEqual, effort, rows);
  if (equal <= effort.target) return equal;
  Indices any_rows = rows;
  const double any = refine(items, ring, Sizes::kAny, effort, any_rows);
  if (any < equal) rows = std::move(any_rows);
  return std::min(any, equal);
}

// Rows given keys, keys given rows, and so on, while it helps.
void alternate(const GroupWork& group, int ring, Sizes key_counts, Effort& effort, Dealt current, Dealt& best) {
  refine(group.columns(), ring, key_counts, effort, current.keys);
  for (int round = 0; round < kRounds && effort.operations > 0; ++round) {
    if (round > 0) refine(group.columns_by_rows(current.rows, ring), ring, key_counts, effort, current.keys);
    const double before = current.ratio;
    current.ratio = improve_rows(group.rows_by_keys(current.keys, ring), ring, effort, current.rows);
    if (current.ratio < best.ratio) best = current;
    if (current.ratio <= effort.target || current.ratio >= before) return;
  }
}

// Puts some of them, or all, anywhere.
void shake(Indices& place, int ring, bool all, const Random& random, std::uint64_t& draw) {
  const auto below = [&](std::size_t limit) { return sized(random.below(draw++, limit)); };
  const std::size_t times = all ? place.size() : 1 + below(3);
  for (std::size_t i = 0; i < times; ++i)
    place[all ? i : below(place.size())] = static_cast<std::int32_t>(below(sized(ring)));
}

Dealt deal_for_ring(const GroupWork& group, const Dealt& present, int ring, Effort effort) {
  // Who is content with less wants fewer moves: then all effort goes into moving from where things are. Otherwise
  // dealing anew is quicker where blocks are many (1,184 rows: 0.1 ms to 1.01).
  const std::int64_t for_moves = effort.target > kNearlyEven ? effort.operations : effort.operations / 6;
  effort.target = std::max(effort.target, kNearlyEven);
  Dealt best = present;
  best.ratio = ratio(group.rows_by_keys(best.keys, ring), ring, best.rows);
  if (best.ratio <= effort.target) return best;
  Effort first{effort.target, for_moves};
  alternate(group, ring, Sizes::kEqual, first, best, best);
  if (best.ratio <= effort.target) return best;
  effort.operations -= effort.operations / 6;
  Dealt fresh;
  fresh.keys = deal(group.columns(), ring, Sizes::kEqual);
  fresh.rows = deal(group.rows_by_keys(fresh.keys, ring), ring, Sizes::kEqual);
  alternate(group, ring, Sizes::kEqual, effort, fresh, best);
  const Random random(1);
  std::uint64_t draw = 0;
  while (best.ratio > effort.target && effort.operations > 0) {
    Dealt shaken = best;
    shaken.ratio = std::numeric_limits<double>::infinity();
    const bool all = draw % 2 == 0;
    shake(shaken.keys, ring, all, random, draw);
    shake(shaken.rows, ring, all, random, draw);
    effort.operations -= static_cast<std::int64_t>(shaken.keys.size() * shaken.rows.size());
    // Shards of keys travel together and are of equal size, unless balance cannot be had otherwise.
    alternate(group, ring, Sizes::kAny, effort, shaken, best);
  }
  return best;
}

Dealt deal_for_gather(const Items& rows, const Dealt& present, int ring, Effort effort) {
  Dealt best = present;
  effort.target = std::max(effort.target, kEven);
  best.ratio = improve_rows(rows, ring, effort, best.rows);
  effort.operations = std::min(effort.operations, kShakeEffort);
  if (best.ratio > effort.target) best.ratio = search(rows, ring, Sizes::kAny, effort, best.rows);
  if (best.ratio <= std::max(effort.target, kNearlyEven)) return best;
  Dealt fresh = best;
  fresh.rows = deal(rows, ring, Sizes::kAny);
  effort.operations = kShakeEffort;
  fresh.ratio = search(rows, ring, Sizes::kAny, effort, fresh.rows);
  return fresh.ratio < best.ratio ? fresh : best;
}

Partition deal_rows(const Counts& work, const Options& options, const Indices& group_of_head, std::int64_t operations) {
  const int ring = options.ring;
  Partition p = options.present != nullptr ? *options.present : contiguous(work, options.ulysses, ring);
  p.heads = lists_of(group_of_head, options.ulysses);
  if (ring == 1) return p;
  const Effort effort{options.target, operations / options.ulysses};
  for (std::size_t u = 0; u < p.heads.size(); ++u) {
    if (p.heads[u].empty()) continue;
    Dealt dealt;
    dealt.rows = bins_of(p.rows[u], work.rows), dealt.keys = bins_of(p.keys[u], work.columns);
    if (options.exchange == Exchange::kRing) {
      dealt = deal_for_ring(GroupWork(work, p.heads[u], options.ulysses > 1), dealt, ring, effort);
    } else {
      dealt = deal_for_gather(row_sums(work, p.heads[u], dealt.keys, ring), dealt, ring, effort);
    }
    p.rows[u] = lists_of(dealt.rows, ring);
    p.keys[u] = lists_of(dealt.keys, ring);
  }
  return p;
}

double imbalance(const Counts& work, const Options& options, const Partition& p) {
  const Tiles t = tiles(work, p);
  return options.exchange == Exchange::kRing ? rho(t) : rho_no_barrier(t);
}

// Heads dealt otherwise, about as evenly, while rows are not even.
void try_other_heads(const Counts& work, const Options& options, Partition& best) {
  const Items items = head_items(work, options.exchange == Exchange::kRing ? options.ring : 1);
  const Sizes counts = options.equal_heads ? Sizes::kEqual : Sizes::kAny;
  double least = imbalance(work, options, best);
  const Random random(2);
  std::uint64_t draw = 0;
  for (int i = 0; i < kHeadDeals && least > std::max(options.target, kNearlyEven); ++i) {
    Indices group = runs(work.heads, options.ulysses);
    for (std::size_t last = group.size(); last > 1; --last)
      std::swap(group[last - 1], group[random.below(draw++, last)]);
    Effort effort{options.target, kHeadEffort / kHeadDeals};
    if (refine(items, options.ulysses, counts, effort, group) >= least) continue;
    Partition p = deal_rows(work, options, group, kRowEffort / kHeadDeals);
    if (const double found = imbalance(work, options, p); found < least) least = found, best = std::move(p);
  }
}

// Blocks so few that exchanges of two cannot make them even: a fixed rule may be luckier.
void try_baselines(const Counts& work, const Options& options, Partition& best) {
  double least = imbalance(work, options, best);
  for (const Baseline& baseline : baselines()) {
    Partition p = baseline.make(work, options.ulysses, options.ring);
    if (const double found = imbalance(work, options, p); found < least) least = found, best = std::move(p);
  }
}

}  // namespace

Indices deal_heads(const Counts& work, const Options& options) {
  check(work, options);
  const int groups = options.ulysses;
  const Items items = head_items(work, options.exchange == Exchange::kRing ? options.ring : 1);
  const Sizes counts = options.equal_heads ? Sizes::kEqual : Sizes::kAny;
  Indices best = options.present != nullptr ? bins_of(options.present->heads, work.heads) : runs(work.heads, groups);
  double least = ratio(items, groups, best);
  if (options.present != nullptr) {
    Effort effort{options.target, kHeadEffort};
    least = refine(items, groups, counts, effort, best);
  }
  if (least <= options.target) return best;
  for (const Sizes each : {Sizes::kEqual, Sizes::kAny}) {
    if (each == Sizes::kAny && options.equal_heads) break;
    Indices dealt = deal(items, groups, each);
    Effort effort{options.target, kHeadEffort / 2};
    const double found = search(items, groups, each, effort, dealt);
    if (found < least) least = found, best = dealt;
  }
  return best;
}

Partition make_partition(const Counts& work, const Options& options) {
  Partition p = deal_rows(work, options, deal_heads(work, options), kRowEffort);
  const bool few = work.heads * work.rows * work.columns <= kFewTriples;
  if (!few || options.ring == 1 || options.present != nullptr) return p;
  if (options.ulysses > 1) try_other_heads(work, options, p);
  if (options.exchange == Exchange::kRing && !options.equal_heads) try_baselines(work, options, p);
  return p;
}

Partition choose_partition(const Counts& work, int ranks, const Options& options) {
  if (ranks < 1) throw Error(fmt::format("a partition over {} ranks", ranks), "use at least one rank");
  constexpr double kGoodEnough = 1.02;
  Partition best;
  double least = std::numeric_limits<double>::infinity();
  for (int ulysses = ranks; ulysses >= 1; --ulysses) {
    if (ranks % ulysses != 0) continue;
    Options each = options;
    each.ulysses = ulysses, each.ring = ranks / ulysses;
    Partition p = make_partition(work, each);
    const double found = imbalance(work, each, p);
    if (found < least) least = found, best = std::move(p);
    if (least <= kGoodEnough) break;
  }
  return best;
}

}  // namespace reel::plan
