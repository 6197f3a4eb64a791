#include "reel/sim/timeline.h"

#include <gtest/gtest.h>

#include "reel/base/testing.h"
#include "reel/sim/testing.h"

namespace reel::sim {
namespace {

Picoseconds part(const ClassTime& time, Category category) {
  return time.breakdown[static_cast<std::size_t>(category)];
}

// Both ways of running it, which must agree.
Timeline both(const Workload& w) {
  const Timeline plain = run(w, unfolded(w));
  const Folding folding = fold(w);
  const Timeline folded = run(w, folding);
  EXPECT_EQ(plain.end, folded.end);
  for (std::int32_t r = 0; r < w.ranks(); ++r) {
    const ClassTime& a = plain.classes[static_cast<std::size_t>(r)];
    const ClassTime& b = folded.classes[static_cast<std::size_t>(folding.class_of[static_cast<std::size_t>(r)])];
    EXPECT_EQ(a.end, b.end) << r;
    EXPECT_EQ(a.breakdown, b.breakdown) << r;
  }
  return plain;
}

TEST(Timeline, ACollectiveStartsWhenItsLastMemberArrives) {
  HandMade hand(3, 1);
  hand.group(0, {0, 1, 2});
  for (int r = 0; r < 3; ++r) {
    hand.compute(r, "work", 100 * (r + 1));
    hand.call(r, "sum", Kind::kCollective, Stream::kCompute, 0, 50);
    hand.compute(r, "more", 10);
  }
  const Timeline t = both(hand.w);
  EXPECT_EQ(t.end, 360 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kBubble), 200 * kNanosecond);
  EXPECT_EQ(part(t.classes[2], Category::kBubble), 0);
  EXPECT_EQ(part(t.classes[0], Category::kTensor), 50 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kCompute), 110 * kNanosecond);
}

// Forward 100 ns, backward 200 ns, a hop 30 ns, three micro-batches:
//   stage 0: F0 0-100, F1 100-200, B0 460-660, F2 660-760, B1 760-960, B2 1120-1320
//   stage 1: F0 130-230, B0 230-430, F1 430-530, B1 530-730, F2 790-890, B2 890-1090
TEST(Timeline, TwoStagePipelineToTheNanosecond) {
  HandMade hand(2, 4);
  hand.channel(0, 1, 0, 1);
  hand.channel(2, 3, 1, 0);
  const auto forward = [&](int stage, int micro) {
    if (stage == 1) hand.call(1, "receive", Kind::kReceive, Stream::kReceiveForward, 1, 0);
    hand.compute(stage, fmt::format("forward {}", micro), 100, stage == 1 ? bit(Stream::kReceiveForward) : 0);
    if (stage == 0) hand.call(0, "send", Kind::kSend, Stream::kSendForward, 0, 30, bit(Stream::kCompute));
  };
  const auto backward = [&](int stage, int micro) {
    if (stage == 0) hand.call(0, "receive", Kind::kReceive, Stream::kReceiveBackward, 3, 0);
    hand.compute(stage, fmt::format("backward {}", micro), 200, stage == 0 ? bit(Stream::kReceiveBackward) : 0);
    if (stage == 1) hand.call(1, "send", Kind::kSend, Stream::kSendBackward, 2, 30, bit(Stream::kCompute));
  };
  forward(0, 0), forward(0, 1), backward(0, 0), forward(0, 2), backward(0, 1), backward(0, 2);
  for (int m = 0; m < 3; ++m) forward(1, m), backward(1, m);
  const Timeline t = both(hand.w);
  EXPECT_EQ(t.classes[0].end, 1320 * kNanosecond);
  EXPECT_EQ(t.classes[1].end, 1090 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kCompute), 900 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kPipeline), 60 * kNanosecond);  // the last 30 ns of both waits
  EXPECT_EQ(part(t.classes[0], Category::kBubble), 360 * kNanosecond);
  EXPECT_EQ(part(t.classes[1], Category::kPipeline), 60 * kNanosecond);
  EXPECT_EQ(part(t.classes[1], Category::kBubble), 130 * kNanosecond);
}

// Four ranks pass a message round three times while they compute 50 ns a step; a hop takes 70 ns.
void ring(HandMade& hand, const std::vector<int>& work) {
  for (int r = 0; r < 4; ++r) hand.channel(0, 1, r, (r + 1) % 4);
  for (int r = 0; r < 4; ++r) {
    for (int step = 0; step < 4; ++step) {
      if (step < 3) {
        hand.call(r, "send", Kind::kSend, Stream::kRingSend, 0, 70,
                  step == 0 ? bit(Stream::kCompute) : bit(Stream::kRingReceive));
      }
      hand.compute(r, "attend", work[static_cast<std::size_t>(r)], step == 0 ? 0 : bit(Stream::kRingReceive));
      if (step < 3) hand.call(r, "receive", Kind::kReceive, Stream::kRingReceive, 1, 0);
    }
  }
}

TEST(Timeline, RingOfFourToTheNanosecond) {
  HandMade even(4, 2);
  ring(even, {50, 50, 50, 50});
  const Timeline t = both(even.w);
  EXPECT_EQ(t.end, (3 * 70 + 50) * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kContext), 60 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kCompute), 200 * kNanosecond);
  HandMade uneven(4, 2);
  ring(uneven, {50, 50, 90, 50});  // slower than the hops: rank 2 never waits, the others do not wait for it
  const Timeline u = both(uneven.w);
  EXPECT_EQ(u.classes[2].end, 360 * kNanosecond);
  EXPECT_EQ(u.classes[0].end, 260 * kNanosecond);
}

TEST(Timeline, ABucketBehindComputeCostsNothingOrItsSlowdown) {
  for (const int slowdown : {1000, 1500}) {
    HandMade hand(2, 1);
    hand.group(0, {0, 1});
    for (int r = 0; r < 2; ++r) {
      hand.compute(r, "layer 1", 100);
      hand.call(r, "reduce", Kind::kCollective, Stream::kData, 0, 60, bit(Stream::kCompute), slowdown);
      hand.compute(r, "layer 0", 100);
      hand.compute(r, "optimizer", 10, bit(Stream::kData));
    }
    const Timeline t = both(hand.w);
    // 60 ns at two thirds of the pace are 40 ns of work: 20 ns are lost
    EXPECT_EQ(t.end, (slowdown == 1000 ? 210 : 230) * kNanosecond);
    EXPECT_EQ(part(t.classes[0], Category::kData), 0);
    EXPECT_EQ(t.classes[0].lost, (slowdown == 1000 ? 0 : 20) * kNanosecond);
    EXPECT_EQ(t.classes[0].beside, 60 * kNanosecond);
  }
}

TEST(Timeline, WhatSticksOutOfComputeIsCounted) {
  HandMade hand(2, 1);
  hand.group(0, {0, 1});
  for (int r = 0; r < 2; ++r) {
    hand.compute(r, "layer 1", 100);
    hand.call(r, "reduce", Kind::kCollective, Stream::kData, 0, 80, bit(Stream::kCompute));
    hand.call(r, "reduce", Kind::kCollective, Stream::kData, 0, 80, bit(Stream::kCompute));
    hand.compute(r, "layer 0", 100);
    hand.compute(r, "optimizer", 10, bit(Stream::kData));
  }
  const Timeline t = both(hand.w);
  EXPECT_EQ(t.end, 270 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kData), 60 * kNanosecond);
  EXPECT_EQ(part(t.classes[0], Category::kBubble), 0);
}

TEST(Timeline, ALagLeavesTheLastTasksOut) {
  HandMade hand(2, 1);
  hand.group(0, {0, 1});
  for (int r = 0; r < 2; ++r) {
    hand.call(r, "gather 0", Kind::kCollective, Stream::kData, 0, 40);
    hand.call(r, "gather 1", Kind::kCollective, Stream::kData, 0, 40);
    Task& first = hand.compute(r, "layer 0", 10);
    first.lag_stream = Stream::kData, first.lag = 1;
    hand.compute(r, "layer 1", 10, bit(Stream::kData));
  }
  const Timeline t = both(hand.w);
  EXPECT_EQ(t.end, 90 * kNanosecond);  // layer 0 at 40, layer 1 at 80
}

// Rank 0 sends 30 ns through half of a network card while a sum of 100 ns has all of it. Both begin at 20 and take 1.5
// times as long: the message until 65, the sum has 50 of its last 80 left then and ends at 115.
TEST(Timeline, CallsOfOneRankShareItsLink) {
  const auto both_calls = [](Link of_sum, Link of_message) {
    HandMade hand(2, 3);
    hand.group(0, {0, 1});
    hand.channel(1, 2, 0, 1);
    const auto set = [&](Link link, int load) {
      hand.w.calls.back().costs[0].link = link;
      hand.w.calls.back().costs[0].load = load;
    };
    for (int r = 0; r < 2; ++r) {
      hand.call(r, "sum", Kind::kCollective, Stream::kData, 0, 100);
      set(of_sum, 1000);
    }
    hand.compute(0, "work", 20);
    hand.call(0, "send", Kind::kSend, Stream::kSendForward, 1, 30, bit(Stream::kCompute));
    set(of_message, 500);
    hand.compute(0, "sent", 0, bit(Stream::kSendForward));
    hand.call(1, "receive", Kind::kReceive, Stream::kReceiveForward, 2, 0);
    hand.compute(1, "received", 0, bit(Stream::kReceiveForward));
    for (int r = 0; r < 2; ++r) hand.compute(r, "all", 0, bit(Stream::kData));
    const Timeline t = both(hand.w);
    return std::pair(t.classes[0].breakdown[static_cast<std::size_t>(Category::kPipeline)], t.end);
  };
  EXPECT_EQ(both_calls(Link::kNetwork, Link::kNetwork), std::pair(45 * kNanosecond, 115 * kNanosecond));
  EXPECT_EQ(both_calls(Link::kNode, Link::kNetwork), std::pair(30 * kNanosecond, 100 * kNanosecond));
}

TEST(Timeline, MessagesThereAndBackDoNotShareALink) {
  HandMade hand(2, 4);
  hand.channel(0, 1, 0, 1);
  hand.channel(2, 3, 1, 0);
  const auto call = [&](int rank, Kind kind, Stream stream, int slot) {
    hand.call(rank, "message", kind, stream, slot, kind == Kind::kSend ? 30 : 0);
    hand.w.calls.back().costs[0].link = Link::kNetwork;
    hand.w.calls.back().costs[0].load = kind == Kind::kSend ? 1000 : 0;
  };
  call(0, Kind::kSend, Stream::kSendForward, 0);
  call(0, Kind::kReceive, Stream::kReceiveBackward, 3);
  call(1, Kind::kReceive, Stream::kReceiveForward, 1);
  call(1, Kind::kSend, Stream::kSendBackward, 2);
  for (int r = 0; r < 2; ++r) hand.compute(r, "end", 0, 0xff & ~bit(Stream::kCompute));
  EXPECT_EQ(both(hand.w).end, 30 * kNanosecond);
}

TEST(Timeline, ADeadlockNamesTheTasksThatWaitForEachOther) {
  HandMade hand(2, 4);
  hand.channel(0, 1, 0, 1);
  hand.channel(2, 3, 1, 0);
  // each receives before it sends
  hand.call(0, "receive from 1", Kind::kReceive, Stream::kCompute, 3, 0);
  hand.call(0, "send to 1", Kind::kSend, Stream::kCompute, 0, 10);
  hand.call(1, "receive from 0", Kind::kReceive, Stream::kCompute, 1, 0);
  hand.call(1, "send to 0", Kind::kSend, Stream::kCompute, 2, 10);
  for (const bool folded : {false, true}) {
    const std::string message = message_of([&] { run(hand.w, folded ? fold(hand.w) : unfolded(hand.w)); });
    EXPECT_NE(message.find("wait for each other"), std::string::npos) << message;
    EXPECT_NE(
        message.find("rank 0: receive from 1\nwaits for rank 1: receive from 0\nwaits for rank 0: receive from 1"),
        std::string::npos)
        << message;
  }
}

TEST(Timeline, AMemberThatNeverComesIsNamed) {
  HandMade hand(2, 1);
  hand.group(0, {0, 1});
  hand.call(0, "sum", Kind::kCollective, Stream::kCompute, 0, 10);
  hand.compute(1, "work", 5);
  const std::string message = message_of([&] { run(hand.w, fold(hand.w)); });
  EXPECT_NE(message.find("rank 0: sum\nwaits for rank 1, which has finished"), std::string::npos) << message;
}

}  // namespace
}  // namespace reel::sim
