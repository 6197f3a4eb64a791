#include "reel/plan/balance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "reel/base/random.h"
#include "reel/base/sized.h"

namespace reel::plan {

namespace {

// Candidate exchanges looked at for two bins; of larger bins a different part each time. 148 rows a bin have 22,000
// exchanges: looking at a fortieth of them takes more steps, but a tenth of the time.
constexpr std::int64_t kCandidates = 512;

// Bins, their loads and members, kept up to date.
class Loads {
 public:
  Loads(const Items& items, int bins, const Indices& bin_of_item)
      : items_(&items), bins_(bins), dims_(items.dims), load_(sized(bins * items.dims), 0.0), members_(sized(bins)) {
    for (std::int64_t x = 0; x < items.count; ++x) {
      const std::int32_t b = bin_of_item[sized(x)];
      members_[sized(b)].push_back(static_cast<std::int32_t>(x));
      for (int d = 0; d < dims_; ++d) mutable_load(b, d) += weight(static_cast<std::int32_t>(x), d);
    }
    mean_.assign(sized(dims_), 0.0);
    for (int d = 0; d < dims_; ++d) {
      for (int b = 0; b < bins_; ++b) mean_[sized(d)] += load(b, d) / bins_;
    }
  }

  int bins() const { return bins_; }
  int dims() const { return dims_; }
  double weight(std::int32_t item, int d) const {
    return static_cast<double>(items_->weight[sized(d * items_->count + item)]);
  }
  double load(int b, int d) const { return load_[sized(b * dims_ + d)]; }
  const Indices& members(int b) const { return members_[sized(b)]; }

  double ratio() const {
    const double mean = std::accumulate(mean_.begin(), mean_.end(), 0.0);
    if (mean <= 0) return 1;
    if (items_->alike) return *std::max_element(load_.begin(), load_.end()) * dims_ / mean;
    double time = 0;
    for (int step = 0; step < dims_; ++step) {
      double most = 0;
      for (int b = 0; b < bins_; ++b) most = std::max(most, load(b, (b + step) % dims_));
      time += most;
    }
    return time / mean;
  }
  double mean_square() const {
    double sum = 0;
    for (const double m : mean_) sum += m * m;
    return sum;
  }
  double distance(int b) const {
    double sum = 0;
    for (int d = 0; d < dims_; ++d) sum += std::pow(load(b, d) - mean_[sized(d)], 2);
    return sum;
  }
  double distance(int b, int c) const {
    double sum = 0;
    for (int d = 0; d < dims_; ++d) sum += (load(b, d) - load(c, d)) * (load(b, d) - load(c, d));
    return sum;
  }

  // Items x of b and y of c change places; -1: none on that side.
  void exchange(int b, std::int32_t x, int c, std::int32_t y) {
    if (x >= 0) hand_over(b, c, x);
    if (y >= 0) hand_over(c, b, y);
  }

  Indices bin_of_item() const { return bins_of(members_, items_->count); }

 private:
  double& mutable_load(int b, int d) { return load_[sized(b * dims_ + d)]; }
  void hand_over(int from, int to, std::int32_t item) {
    Indices& source = members_[sized(from)];
    source.erase(std::find(source.begin(), source.end(), item));
    members_[sized(to)].push_back(item);
    for (int d = 0; d < dims_; ++d) {
      mutable_load(from, d) -= weight(item, d);
      mutable_load(to, d) += weight(item, d);
    }
  }

  const Items* items_;
  int bins_, dims_;
  std::vector<double> load_, mean_;  // [bins][dims], [dims]
  std::vector<Indices> members_;
};

struct Trade {
  std::int32_t x = -1, y = -1;
  double gain = 0;  // half of what the sum of squares falls by
};

double gain_of(const Loads& loads, int b, std::int32_t x, int c, std::int32_t y) {
  double change = 0;
  for (int d = 0; d < loads.dims(); ++d) {
    const double delta = (y >= 0 ? loads.weight(y, d) : 0.0) - (x >= 0 ? loads.weight(x, d) : 0.0);
    change += delta * (loads.load(b, d) - loads.load(c, d) + delta);
  }
  return -change;
}

// The best exchange between two bins that the counts allow.
class Finder {
 public:
  Finder(const Items& items, Sizes counts) : items_(items), counts_(counts) {}

  Trade best(const Loads& loads, int b, int c, Effort& effort) {
    const Indices &of_b = loads.members(b), &of_c = loads.members(c);
    const auto n = static_cast<std::int64_t>(of_b.size()), m = static_cast<std::int64_t>(of_c.size());
    copy_weights(of_c);
    gap_.resize(sized(items_.dims));
    for (int d = 0; d < items_.dims; ++d) gap_[sized(d)] = static_cast<float>(loads.load(b, d) - loads.load(c, d));
    Trade best;
    if (n > 0 && m > 0) {
      const std::int64_t step = std::clamp<std::int64_t>(n * m / kCandidates, 1, n);
      for (std::int64_t i = static_cast<std::int64_t>(turn_++ % static_cast<std::uint64_t>(step)); i < n; i += step) {
        const std::int32_t x = of_b[sized(i)];
        const std::size_t at = cheapest_partner(x);
        consider(loads, b, x, c, of_c[at], best);
      }
      effort.operations -= ((n / step + 1) * m + 4 * (n + m)) * items_.dims;  // and keeping book of so many
    }
    const auto give = [&](std::int32_t x) { consider(loads, b, x, c, -1, best); };
    const auto take = [&](std::int32_t y) { consider(loads, b, -1, c, y, best); };
    if (may_hand_over(n, m)) visit_some(of_b, give, effort);
    if (may_hand_over(m, n)) visit_some(of_c, take, effort);
    return best;
  }

 private:
  // A different 64 of them each time, or all.
  void visit_some(const Indices& members, const auto& visit, Effort& effort) const {
    const std::size_t step = std::max<std::size_t>(1, members.size() / 64);
    for (std::size_t i = turn_ % step; i < members.size(); i += step) visit(members[i]);
    effort.operations -= 4 * items_.dims * static_cast<std::int64_t>(members.size() / step);  // not vectorised
  }
  bool may_hand_over(std::int64_t from, std::int64_t to) const { return counts_ == Sizes::kAny || from > to; }

  void copy_weights(const Indices& of_c) {
    const std::size_t m = of_c.size();
    weights_.resize(m * sized(items_.dims));
    for (int d = 0; d < items_.dims; ++d) {
      const float* row = items_.weight.data() + d * items_.count;
      float* out = weights_.data() + sized(d) * m;
      for (std::size_t k = 0; k < m; ++k) out[k] = row[of_c[k]];
    }
    change_.resize(m);
  }

  std::size_t cheapest_partner(std::int32_t x) {
    const std::size_t m = change_.size();
    std::fill(change_.begin(), change_.end(), 0.0f);
    float* change = change_.data();
    for (int d = 0; d < items_.dims; ++d) {
      const float own = items_.weight[sized(d * items_.count + x)];
      const float gap = gap_[sized(d)] - own;
      const float* w = weights_.data() + sized(d) * m;
      for (std::size_t k = 0; k < m; ++k) change[k] += (w[k] - own) * (w[k] + gap);
    }
    return sized(std::min_element(change_.begin(), change_.end()) - change_.begin());
  }

  static void consider(const Loads& loads, int b, std::int32_t x, int c, std::int32_t y, Trade& best) {
    const double gain = gain_of(loads, b, x, c, y);
    if (gain > best.gain) best = {x, y, gain};
  }

  const Items& items_;
  Sizes counts_;
  std::uint64_t turn_ = 0;
  std::vector<float> weights_, gap_, change_;
};

// Bins of equal count hold `least` or one more; only so many may have one more.
struct Room {
  std::int64_t least, larger;
  Room(std::int64_t items, int bins) : least(items / bins), larger(items % bins) {}
};

double least_ratio(const Items& items, int bins, Sizes counts) {
  if (items.dims != 1 || items.count == 0) return 1;
  std::vector<float> sorted(items.weight.begin(), items.weight.end());
  std::sort(sorted.begin(), sorted.end());
  const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  if (total <= 0) return 1;
  double heaviest = static_cast<double>(sorted.back());
  if (counts == Sizes::kEqual && items.count >= bins) {
    heaviest = std::accumulate(sorted.begin(), sorted.begin() + (items.count / bins - 1), heaviest);
  }
  return std::max(1.0, heaviest * bins / total);
}

// Pairs of bins that may have something to exchange.
class OpenPairs {
 public:
  explicit OpenPairs(int bins) : bins_(bins), closed_(sized(bins * bins), 0), count_(sized(bins), bins - 1) {}

  bool any(int b) const { return count_[sized(b)] > 0; }
  bool has(int b, int c) const { return b != c && closed_[sized(b * bins_ + c)] == 0; }
  void close(int b, int c) { set(b, c, 1); }
  void open(int b) {
    for (int c = 0; c < bins_; ++c) {
      if (c != b && !has(b, c)) set(b, c, 0);
    }
  }

 private:
  void set(int b, int c, std::uint8_t closed) {
    closed_[sized(b * bins_ + c)] = closed_[sized(c * bins_ + b)] = closed;
    for (const int each : {b, c}) count_[sized(each)] += closed != 0 ? -1 : 1;
  }
  int bins_;
  std::vector<std::uint8_t> closed_;
  std::vector<int> count_;
};

void descend(Loads& loads, Finder& finder, Effort& effort) {
  const int bins = loads.bins();
  const double least_gain = 1e-9 * loads.mean_square();
  OpenPairs open(bins);
  // With one dimension the fullest bin is all that counts; of tiles, the bin furthest from the mean comes first.
  const bool one = loads.dims() == 1;
  std::vector<double> urgency(sized(bins));
  const auto update = [&](int b) { urgency[sized(b)] = one ? loads.load(b, 0) : loads.distance(b); };
  for (int b = 0; b < bins; ++b) update(b);
  while (effort.operations > 0 && loads.ratio() > effort.target) {
    int b = -1, c = -1;
    for (int i = 0; i < bins; ++i) {
      if (!one && !open.any(i)) continue;
      if (b < 0 || urgency[sized(i)] > urgency[sized(b)]) b = i;
    }
    if (b < 0 || !open.any(b)) return;
    double widest = -1;
    for (int i = 0; i < bins; ++i) {
      if (!open.has(b, i)) continue;
      const double gap = loads.distance(b, i);
      if (gap > widest) widest = gap, c = i;
    }
    effort.operations -= 4 * bins * loads.dims() + 20;
    const Trade best = finder.best(loads, b, c, effort);
    if (best.gain <= least_gain) {
      open.close(b, c);
      continue;
    }
    loads.exchange(b, best.x, c, best.y);
    for (const int changed : {b, c}) {
      update(changed);
      open.open(changed);
    }
  }
}

// A few random exchanges, half of them with the fullest bin.
void shake(Loads& loads, Sizes counts, const Random& random, std::uint64_t& draw) {
  const auto below = [&](std::size_t limit) { return static_cast<int>(random.below(draw++, limit)); };
  const auto bins = sized(loads.bins());
  const int times = 1 + below(3);
  for (int i = 0; i < times; ++i) {
    int b = below(bins);
    if (below(2) == 0) {
      for (int k = 0; k < loads.bins(); ++k) {
        if (loads.distance(k) > loads.distance(b)) b = k;
      }
    }
    const int c = static_cast<int>((sized(b) + 1 + sized(below(bins - 1))) % bins);
    if (loads.members(b).empty() || loads.members(c).empty()) continue;
    const std::int32_t x = loads.members(b)[sized(below(loads.members(b).size()))];
    const std::int32_t y = loads.members(c)[sized(below(loads.members(c).size()))];
    loads.exchange(b, x, c, counts == Sizes::kAny && below(2) == 0 ? -1 : y);
  }
}

}  // namespace

double ratio(const Items& items, int bins, const Indices& bin_of_item) {
  return Loads(items, bins, bin_of_item).ratio();
}

Indices deal(const Items& items, int bins, Sizes counts) {
  const auto n = sized(items.count);
  std::vector<float> sum(n, 0.0f);
  for (int d = 0; d < items.dims; ++d) {
    for (std::size_t x = 0; x < n; ++x) sum[x] += items.weight[sized(d) * n + x];
  }
  Indices order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return sum[sized(a)] > sum[sized(b)]; });
  Room room(items.count, bins);
  std::vector<std::int64_t> held(sized(bins), 0);
  std::vector<double> load(sized(bins * items.dims), 0.0);
  Indices bin_of_item(n);
  for (const std::int32_t x : order) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int b = 0; b < bins; ++b) {
      const std::int64_t has = held[sized(b)];
      if (counts == Sizes::kEqual && has >= room.least + (room.larger > 0 ? 1 : 0)) continue;
      double dot = 0, all = 0;  // with one dimension and nothing in it yet, the sum decides
      for (int d = 0; d < items.dims; ++d) {
        const double l = load[sized(b * items.dims + d)];
        dot += l * static_cast<double>(items.weight[sized(d) * n + sized(x)]);
        all += l;
      }
      const double price = items.dims == 1 ? all : dot;
      if (price < least) least = price, best = b;
    }
    const auto b = sized(best);
    bin_of_item[sized(x)] = best;
    if (++held[b] > room.least) --room.larger;
    for (int d = 0; d < items.dims; ++d) {
      load[b * sized(items.dims) + sized(d)] += static_cast<double>(items.weight[sized(d) * n + sized(x)]);
    }
  }
  return bin_of_item;
}

double refine(const Items& items, int bins, Sizes counts, Effort& effort, Indices& bin_of_item) {
  Loads loads(items, bins, bin_of_item);
  Finder finder(items, counts);
  descend(loads, finder, effort);
  bin_of_item = loads.bin_of_item();
  return loads.ratio();
}

double search(const Items& items, int bins, Sizes counts, Effort& effort, Indices& bin_of_item) {
  Loads best(items, bins, bin_of_item);
  Finder finder(items, counts);
  descend(best, finder, effort);
  const double enough = std::max(effort.target, least_ratio(items, bins, counts) * (1 + 1e-6));
  const Random random(1);
  std::uint64_t draw = 0;
  Loads trial = best;
  while (bins > 1 && items.count > 1 && best.ratio() > enough && effort.operations > 0) {
    trial = best;
    effort.operations -= items.count * (items.dims + 1);
    shake(trial, counts, random, draw);
    descend(trial, finder, effort);
    if (trial.ratio() < best.ratio()) std::swap(best, trial);
  }
  bin_of_item = best.bin_of_item();
  return best.ratio();
}

}  // namespace reel::plan
