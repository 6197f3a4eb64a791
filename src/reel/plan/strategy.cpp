#include "reel/plan/strategy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "reel/base/sized.h"
#include "reel/cost/collective.h"
#include "reel/plan/gather.h"
#include "reel/plan/imbalance.h"

namespace reel::plan {

std::string Strategy::name() const { return degrees.ranks() == 1 ? "one rank" : degrees.text(); }

namespace {

constexpr double kElementBytes = 2;  // bf16
constexpr double kIndexBytes = 4;

// Devices of a group of `size` ranks that lie on one node when its members are `stride` apart.
std::int64_t on_a_node(std::int64_t size, std::int64_t stride, std::int64_t ranks, std::int64_t per_node) {
  if (ranks <= per_node) return size;
  return std::gcd(size, std::max<std::int64_t>(1, per_node / stride));
}

// Prices one strategy.
class Pricing {
 public:
  // `gather` is for strategies that gather; both are of s.partition.
  Pricing(const lists::KeyLists& lists, const Counts& work, const Setting& setting, const Tiles& tiles,
          const GatherPlan& gather, Strategy& s)
      : lists_(lists), work_(work), setting_(setting), tiles_(tiles), gather_(gather), s_(s) {}

  void run() {
    const double ranks = s_.partition.ranks();
    const double launches = s_.degrees.ring * setting_.cluster.device.launch;
    s_.compute_seconds = tiles_.total() / ranks + launches;
    price_heads();
    price_rows();
    if (s_.gathers()) {
      price_gather();
    } else {
      price_ring();
    }
    s_.memory += resting_bytes();
    const double limit = setting_.memory > 0 ? setting_.memory : setting_.cluster.device.memory.bytes;
    s_.fits = s_.memory <= limit;
  }

 private:
  double token_bytes() const { return static_cast<double>(work_.batch * setting_.head_dim) * kElementBytes; }
  std::int64_t key_stride() const { return s_.degrees.keys_inside ? 1 : s_.degrees.ulysses; }
  std::int64_t head_stride() const { return s_.degrees.keys_inside ? s_.degrees.keys() : 1; }

  // `bytes`: what the busiest rank sends to others; the collective's own measure counts its own part, too.
  double seconds_of(cost::CollectiveOp op, std::int64_t size, std::int64_t stride, double bytes) const {
    const std::int64_t per_node = on_a_node(size, stride, setting_.ranks, setting_.cluster.fabric.per_node);
    cost::Collective c{op, size, per_node, bytes, 1};
    if (op == cost::CollectiveOp::kAllToAll)
      c.bytes = bytes * static_cast<double>(size) / static_cast<double>(size - 1);
    if (per_node < size)
      c.sharing = std::min<std::int64_t>(setting_.cluster.fabric.per_node, setting_.ranks) / per_node;
    return cost::cost_of(setting_.cluster, c).seconds;
  }

  void price_heads() {
    if (s_.degrees.ulysses == 1) return;
    const double tokens = static_cast<double>(work_.tokens()) / s_.degrees.keys(), groups = s_.degrees.ulysses;
    double most = 0;
    for (const Indices& heads : s_.partition.heads) {
      const double own = static_cast<double>(heads.size()), others = static_cast<double>(work_.heads) - own;
      most = std::max({most, own * (groups - 1) / groups, others / groups});
    }
    const double bytes = most * tokens * token_bytes();
    s_.heads_seconds = seconds_of(cost::CollectiveOp::kAllToAll, s_.degrees.ulysses, head_stride(), 3 * bytes) +
                       seconds_of(cost::CollectiveOp::kAllToAll, s_.degrees.ulysses, head_stride(), bytes);
    s_.bytes += 4 * static_cast<double>(work_.heads * work_.tokens()) * token_bytes() * (groups - 1) / groups;
  }

  void price_rows() {
    if (s_.degrees.keys() == 1) return;
    const Moved m = moved(contiguous(work_, s_.degrees.ulysses, s_.degrees.keys()), s_.partition, work_,
                          setting_.head_dim, kElementBytes);
    if (m.bytes == 0) return;
    s_.bytes += m.bytes;
    // There with q, k and v, and back with the output: half of the bytes of rows each, or less where keys move, too.
    s_.rows_seconds = seconds_of(cost::CollectiveOp::kAllToAll, s_.degrees.keys(), key_stride(), m.most_bytes / 2) * 2;
  }

  void price_ring() {
    s_.rho = rho(tiles_);
    const double even = tiles_.total() / s_.partition.ranks();
    s_.waiting_seconds = s_.rho * even - even;
    if (s_.degrees.keys() == 1) return;
    double shard = 0;  // of the largest group and position
    for (std::size_t u = 0; u < s_.partition.keys.size(); ++u) {
      for (const Indices& columns : s_.partition.keys[u]) {
        double tokens = 0;
        for (const std::int32_t c : columns) tokens += work_.column_tokens[sized(c)];
        const double bytes = 2 * tokens * token_bytes() * static_cast<double>(s_.partition.heads[u].size());
        shard = std::max(shard, bytes);
        s_.bytes += bytes * (s_.degrees.keys() - 1);
      }
    }
    const double hop = seconds_of(cost::CollectiveOp::kSendRecv, s_.degrees.keys(), key_stride(), shard);
    for (int step = 0; step + 1 < s_.degrees.keys(); ++step) {
      double slowest = 0;
      for (int u = 0; u < s_.degrees.ulysses; ++u) {
        for (int i = 0; i < s_.degrees.keys(); ++i)
          slowest = std::max(slowest, tiles_.at(u, i, (i + step) % s_.degrees.keys()));
      }
      s_.keys_seconds += std::max(0.0, hop - slowest);
    }
    s_.memory += 2 * shard;  // one at work, one on its way
  }

  void price_gather() {
    s_.rho = rho_no_barrier(tiles_);
    const double even = tiles_.total() / s_.partition.ranks();
    s_.waiting_seconds = s_.rho * even - even;
    s_.bytes += gather_.total_bytes();
    const auto to_all = cost::CollectiveOp::kAllToAll;
    s_.keys_seconds =
        seconds_of(to_all, s_.degrees.keys(), key_stride(), static_cast<double>(gather_.most_fetched()) * kIndexBytes) +
        seconds_of(to_all, s_.degrees.keys(), key_stride(), gather_.most_bytes());
    s_.memory += gather_.most_memory();
  }

  // q, k, v and the output before and after the exchange of heads, and the lists.
  double resting_bytes() const {
    const double entries = static_cast<double>(work_.tokens()) * static_cast<double>(work_.heads);
    const double before = 4 * entries / s_.partition.ranks() * token_bytes();
    double after = 0, longest = 0;
    for (std::size_t u = 0; u < s_.partition.rows.size(); ++u) {
      for (const Indices& rows : s_.partition.rows[u]) {
        double tokens = 0, listed = 0;
        for (const std::int32_t row : rows) {
          tokens += work_.row_tokens[sized(row)];
          for (const std::int32_t h : s_.partition.heads[u]) {
            for (std::int64_t b = 0; b < lists_.batch; ++b)
              listed += static_cast<double>(lists_.list(b, h, row).size()) * kIndexBytes;
          }
        }
        after = std::max(after, 4 * tokens * static_cast<double>(s_.partition.heads[u].size()) * token_bytes());
        longest = std::max(longest, listed);
      }
    }
    return before + (s_.degrees.ulysses > 1 ? after : 0) + longest;
  }

  const lists::KeyLists& lists_;
  const Counts& work_;
  const Setting& setting_;
  const Tiles& tiles_;
  const GatherPlan& gather_;
  Strategy& s_;
};

void check(const Setting& setting) {
  if (setting.ranks < 1) throw Error(fmt::format("{} ranks", setting.ranks), "use at least one rank");
  const std::int64_t per_node = setting.cluster.fabric.per_node;
  if (setting.ranks > per_node && setting.ranks % per_node != 0) {
    throw Error(fmt::format("{} ranks do not fill nodes of {} devices", setting.ranks, per_node),
                fmt::format("use up to {} ranks, or a multiple of {}", per_node, per_node));
  }
}

}  // namespace

std::vector<Strategy> compare(const lists::KeyLists& lists, const Counts& work, const Setting& setting) {
  check(setting);
  const bool several_nodes = setting.ranks > setting.cluster.fabric.per_node;
  std::vector<Strategy> found;
  const auto quicker = [](const Strategy& a, const Strategy& b) {
    return std::pair(!a.fits, a.seconds()) < std::pair(!b.fits, b.seconds());
  };
  for (int ulysses = 1; ulysses <= setting.ranks && ulysses <= work.heads; ++ulysses) {
    if (setting.ranks % ulysses != 0) continue;
    const int ring = setting.ranks / ulysses;
    const Partition plain = contiguous(work, ulysses, ring);
    const Tiles plain_tiles = tiles(work, plain);
    for (const Exchange exchange : {Exchange::kRing, Exchange::kGather}) {
      if (ring == 1 && exchange == Exchange::kGather) continue;
      Options options{.ulysses = ulysses, .ring = ring, .exchange = exchange};
      const Partition planned = make_partition(work, options);
      Partition resting = plain;
      resting.heads = planned.heads;
      std::array<std::vector<Strategy>, 2> variants;  // with heads inside nodes, with keys inside nodes
      for (const Partition* p : {&planned, static_cast<const Partition*>(&resting)}) {
        const Tiles t = tiles(work, *p);
        GatherPlan gather;
        if (exchange == Exchange::kGather) gather = plan_gather(lists, work, *p, setting.head_dim, kElementBytes);
        for (const bool heads_inside : {true, false}) {
          if (!heads_inside && (!several_nodes || ring == 1 || ulysses == 1)) continue;
          Strategy s;
          s.degrees = {.ulysses = ulysses, .keys_inside = !heads_inside};
          (exchange == Exchange::kRing ? s.degrees.ring : s.degrees.gather) = ring;
          s.partition = *p;
          s.rho_contiguous = exchange == Exchange::kRing ? rho(plain_tiles) : rho_no_barrier(plain_tiles);
          Pricing(lists, work, setting, t, gather, s).run();
          variants[heads_inside ? 0 : 1].push_back(std::move(s));
        }
      }
      for (const std::vector<Strategy>& each : variants) {
        if (!each.empty()) found.push_back(*std::min_element(each.begin(), each.end(), quicker));
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), quicker);
  return found;
}

std::string explain(const Strategy& a, const Strategy& b) {
  struct Part {
    const char* what;
    double saved;
  };
  std::vector<Part> parts = {
      {"exchanging heads takes", b.heads_seconds - a.heads_seconds},
      {"moving rows takes", b.rows_seconds - a.rows_seconds},
      {"fetching keys takes", b.keys_seconds - a.keys_seconds},
      {"computing takes", b.compute_seconds - a.compute_seconds},
      {"waiting for the slowest rank takes", b.waiting_seconds - a.waiting_seconds},
  };
  std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.saved > y.saved; });
  std::string text =
      fmt::format("{} takes {:.3f} ms, {} {:.3f} ms", a.name(), a.seconds() * 1e3, b.name(), b.seconds() * 1e3);
  const double least = 0.02 * std::max(a.seconds(), b.seconds());
  std::vector<std::string> reasons;
  for (const Part& part : parts) {
    if (std::abs(part.saved) < least) continue;
    reasons.push_back(
        fmt::format("{} {:.3f} ms {}", part.what, std::abs(part.saved) * 1e3, part.saved > 0 ? "less" : "more"));
  }
  if (!reasons.empty()) text += ": ";
  for (std::size_t i = 0; i < reasons.size(); ++i) text += (i > 0 ? ", " : "") + reasons[i];
  if (std::abs(a.rho - b.rho) > 0.02) text += fmt::format(" (imbalance {:.2f} instead of {:.2f})", a.rho, b.rho);
  return text;
}

}  // namespace reel::plan
