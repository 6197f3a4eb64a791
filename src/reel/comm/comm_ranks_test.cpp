#include <gtest/gtest.h>

#include <numeric>

#include "reel/base/random.h"
#include "reel/base/testing.h"
#include "reel/comm/comm.h"
#include "reel/comm/hollow.h"
#include "reel/comm/testing.h"

namespace reel::comm {
namespace {

using testing::world;

constexpr Where kHere{3, Phase::kForward};

// What rank `from` sends to rank `to`: other sizes and values for each pair, sometimes nothing.
std::vector<float> letter(int from, int to) {
  std::vector<float> values(static_cast<std::size_t>((from * 7 + to * 5) % 4 * 1000 + (from + to) % 3));
  std::iota(values.begin(), values.end(), static_cast<float>(100000 * from + 10000 * to));
  return values;
}

std::vector<float> numbers(std::size_t count, int rank) {
  std::vector<float> values(count);
  Random(1, static_cast<std::uint64_t>(rank)).fill_normal(values);
  return values;
}

template <class T>
std::vector<T> joined(const std::vector<std::vector<T>>& parts, std::vector<std::int64_t>& bytes) {
  std::vector<T> all;
  for (const auto& part : parts) {
    bytes.push_back(static_cast<std::int64_t>(part.size() * sizeof(T)));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Ranks, AllToAllBringsEveryLetter) {
  std::vector<std::vector<float>> mine, theirs;
  for (int r = 0; r < world().size(); ++r) {
    mine.push_back(letter(world().rank(), r));
    theirs.push_back(letter(r, world().rank()));
  }
  std::vector<std::int64_t> send, receive;
  const std::vector<float> out = joined(mine, send), expected = joined(theirs, receive);
  std::vector<float> in(expected.size(), -1);
  world().all_to_all_v(out.data(), send, in.data(), receive, kHere);
  EXPECT_EQ(in, expected);
}

TEST(Ranks, AllGatherBringsEverythingToEverybody) {
  std::vector<std::vector<float>> parts;
  for (int r = 0; r < world().size(); ++r) parts.push_back(letter(r, r));
  std::vector<std::int64_t> bytes;
  const std::vector<float> expected = joined(parts, bytes);
  std::vector<float> all(expected.size(), -1);
  world().all_gather_v(parts[static_cast<std::size_t>(world().rank())].data(), all.data(), bytes, kHere);
  EXPECT_EQ(all, expected);
}

// The sum in rank order in f32: the same bits each time, on every rank.
TEST(Ranks, SumsAreTakenInRankOrder) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{20011}}) {
    std::vector<float> expected = numbers(count, 0);
    for (int r = 1; r < world().size(); ++r) {
      const std::vector<float> other = numbers(count, r);
      for (std::size_t i = 0; i < count; ++i) expected[i] += other[i];
    }
    std::vector<float> x = numbers(count, world().rank());
    world().all_reduce(std::span<float>(x), kHere);
    EXPECT_EQ(x, expected) << count;

    std::vector<std::int64_t> counts;  // the last rank has what is left, and rank 1 nothing
    for (int r = 0; r < world().size(); ++r)
      counts.push_back(r == 1 ? 0 : static_cast<std::int64_t>(count) / world().size());
    counts.back() += static_cast<std::int64_t>(count) - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto first =
        static_cast<std::size_t>(std::accumulate(counts.begin(), counts.begin() + world().rank(), std::int64_t{0}));
    x = numbers(count, world().rank());
    std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(world().rank())]));
    world().reduce_scatter(x.data(), counts, own.data(), kHere);
    EXPECT_TRUE(std::equal(own.begin(), own.end(), expected.begin() + static_cast<std::ptrdiff_t>(first))) << count;
  }
  double x[2] = {0.1 * world().rank(), 1};
  world().all_reduce(std::span<double>(x), kHere);
  double expected = 0;
  for (int r = 0; r < world().size(); ++r) expected += 0.1 * r;
  EXPECT_EQ(x[0], expected);
  EXPECT_EQ(x[1], world().size());
}

TEST(Ranks, MessagesOfATagArriveInOrderWhilePolled) {
  const int next = (world().rank() + 1) % world().size(),
            before = (world().rank() + world().size() - 1) % world().size();
  const std::vector<float> a = numbers(30000, world().rank()), b = numbers(7, world().rank() + 100);
  std::vector<float> in_a(a.size()), in_b(b.size());
  const auto bytes = [](const std::vector<float>& x) { return static_cast<std::int64_t>(x.size() * sizeof(float)); };
  std::vector<Handle> handles;
  handles.push_back(world().start_receive(in_a.data(), bytes(a), before, 5, kHere));
  handles.push_back(world().start_receive(in_b.data(), bytes(b), before, 5, kHere));
  handles.push_back(world().start_send(a.data(), bytes(a), next, 5, kHere));
  handles.push_back(world().start_send(b.data(), bytes(b), next, 5, kHere));
  EXPECT_EQ(world().shared().in_flight, 4);
  for (Handle& handle : handles) {
    while (!handle.done()) world().poll();
  }
  EXPECT_EQ(world().shared().in_flight, 0);
  EXPECT_EQ(in_a, numbers(a.size(), before));
  EXPECT_EQ(in_b, numbers(b.size(), before + 100));
}

// What a bench takes for a network that costs nothing: everybody waits for everybody, and the meter sees it all.
TEST(Ranks, HollowMessagesCarryOneByteAndAreMeteredWhole) {
  const auto hollow = make_hollow(world());
  world().shared().traffic.clear();
  const std::vector<char> own(1000, 'a');
  std::vector<char> all(1000 * static_cast<std::size_t>(world().size()), 'b');
  hollow->all_gather_v(own.data(), all.data(),
                       std::vector<std::int64_t>(static_cast<std::size_t>(world().size()), 1000));
  for (int r = 0; r < world().size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(1000 * r)], 'a');
    EXPECT_EQ(all[static_cast<std::size_t>(1000 * r + 1)], r == world().rank() ? 'a' : 'b');
  }
  EXPECT_EQ(world().shared().traffic.bytes_sent(), 1000 * (world().size() - 1));
}

TEST(Ranks, GroupsTalkAmongThemselves) {
  std::vector<int> alike;
  for (int r = world().rank() % 2; r < world().size(); r += 2) alike.push_back(r);
  const auto odd = world().group(alike, "odd or even");
  EXPECT_EQ(odd->size(), (world().size() + 1 - world().rank() % 2) / 2);
  EXPECT_EQ(odd->rank(), world().rank() / 2);
  double sum = world().rank();
  odd->all_reduce({&sum, 1});
  double expected = 0;
  for (int r = world().rank() % 2; r < world().size(); r += 2) expected += r;
  EXPECT_EQ(sum, expected);
  odd->barrier();
}

// Groups of the same ranks, in other orders, with messages of both under way; the ends take turns in another order. The
// last operation of one group must not take what belongs to the other.
TEST(Ranks, GroupsThatOverlapKeepTheirMessagesApart) {
  const int n = world().size(), rank = world().rank();
  std::vector<int> forward(static_cast<std::size_t>(n)), backward;
  std::iota(forward.begin(), forward.end(), 0);
  backward.assign(forward.rbegin(), forward.rend());
  std::vector<std::unique_ptr<Comm>> groups;
  groups.push_back(world().group(forward, "forward"));
  if (rank < 2) groups.push_back(world().group({1, 0}, "pair"));  // the others know nothing of it
  groups.push_back(world().group(backward, "backward"));
  if (rank != 0 && n > 2) {
    groups.push_back(world().group(std::vector<int>(forward.begin() + 1, forward.end()), "without the first"));
  }
  if (rank % 2 == 1) std::reverse(groups.begin(), groups.end());  // operations in another order than on the neighbour
  const auto told = [](const Comm& group, int from, int round) {
    return std::vector<float>(4000, static_cast<float>(1000 * group.name().size() + 10 * from + round));
  };
  std::vector<std::vector<float>> own, all, expected;
  std::vector<Handle> handles;
  for (int round = 0; round < 3; ++round) {
    for (const auto& group : groups) {
      const std::vector<std::int64_t> bytes(static_cast<std::size_t>(group->size()), 16000);
      expected.emplace_back();
      for (const int r : group->members()) {
        const std::vector<float> part = told(*group, r, round);
        expected.back().insert(expected.back().end(), part.begin(), part.end());
      }
      own.push_back(told(*group, rank, round));
      all.emplace_back(expected.back().size(), -1.0f);
      handles.push_back(group->start_all_gather(own.back().data(), all.back().data(), bytes, kHere));
    }
  }
  while (!handles.empty()) handles.pop_back();  // the last one first
  EXPECT_EQ(all, expected);
}

// By its number among all ranks: the last of them is 1 in the group.
TEST(Ranks, AWaitThatTakesTooLongSaysForWhom) {
  const int last = world().size() - 1;
  const bool takes_part = world().rank() == 0 || world().rank() == last;
  const auto group =
      world().group(takes_part ? std::vector<int>{0, last} : std::vector<int>{world().rank()}, "patience");
  static float late = 0;  // outlives the wait: the message comes in the end
  if (world().rank() == 0) {
    const double limit = std::exchange(group->shared().limit, 0.2);
    EXPECT_EQ(message_of([&] {
                group->start_receive(&late, 4, 1, 7, {7, Phase::kBackward}).wait();
              }),
              fmt::format("receive of group patience, layer 7, backward, waited 0 s for rank {} | that rank is stuck, "
                          "or the network between them is down; where it is only slow, raise parallel.wait_seconds",
                          last));
    group->shared().limit = limit;
  }
  world().barrier();
  const float value = 1;
  if (world().rank() == last) group->start_send(&value, 4, 0, 7, kHere).wait();
  world().barrier();
}

// A ghost meters what the real one sends, in the same order.
TEST(Ranks, AGhostSendsWhatTheRealOneSends) {
  const auto talk = [](Comm& comm) {
    comm.shared().traffic.clear();
    Recorder recorder;
    comm.shared().recorder = &recorder;
    const int first = comm.rank() / 2 * 2;
    const auto pair =
        comm.group(first + 1 < comm.size() ? std::vector<int>{first, first + 1} : std::vector<int>{first}, "pair");
    std::vector<float> x(5000), y(5000 * static_cast<std::size_t>(comm.size()));
    std::vector<std::int64_t> bytes;
    for (int r = 0; r < comm.size(); ++r) bytes.push_back(400 * r);
    comm.all_gather_v(x.data(), y.data(), bytes, kHere);
    comm.all_reduce(std::span<float>(x), {});
    double one = 1;
    pair->all_reduce({&one, 1}, {1, Phase::kBackward});
    comm.barrier();
    comm.shared().recorder = nullptr;
    std::vector<std::string> lines;
    for (const Record& r : recorder.records()) {
      lines.push_back(describe(r.work));
    }
    return lines;
  };
  const auto ghost = make_ghost(world().rank(), world().size());
  const std::vector<std::string> real = talk(world()), pale = talk(*ghost);
  EXPECT_EQ(pale, real);
  const auto rows = [](Comm& comm) {
    std::vector<std::int64_t> all;
    for (const auto& [key, row] : comm.shared().traffic.rows()) all.insert(all.end(), {row.calls, row.bytes_sent});
    return all;
  };
  EXPECT_EQ(rows(*ghost), rows(world()));
  const std::string text = traffic_json(world());
  const std::string own = fmt::format(
      "{{\"layer\": 3, \"phase\": \"forward\", \"operation\": \"all_gather\", \"group\": "
      "\"world\", \"calls\": 1, \"bytes_sent\": {}}}",
      400 * world().rank() * (world().size() - 1));
  EXPECT_NE(text.find(own), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("\"rank\": {}", world().size() - 1)), std::string::npos);
}

}  // namespace
}  // namespace reel::comm
