#include "reel/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

#include "reel/base/testing.h"
#include "reel/data/permutation.h"
#include "reel/data/testing.h"
#include "reel/data/video_file.h"

namespace reel::data {
namespace {

// Clip i holds its whole index as value; which ones are broken may depend on the epoch.
class NumberedClips final : public Source {
 public:
  explicit NumberedClips(
      std::int64_t size, std::function<bool(std::int64_t)> broken = {}, Warn warn = [](auto&) {})
      : Source({.channels = 1, .text_tokens = 1, .text_width = 1}, true, std::move(warn)),
        size_(size),
        broken_(std::move(broken)) {}
  std::int64_t size(Split) const override { return size_; }
  int reads() const { return reads_; }

 private:
  void read_clip(Split, std::int64_t index, Clip& out) override {
    ++reads_;
    if (broken_ && broken_(index)) throw Error(fmt::format("clip {} is broken", index));
    out.values[0] = static_cast<float>(index);
    out.text[0] = -static_cast<float>(index);
    out.label = static_cast<int>(index % 7);
    out.caption = fmt::format("{}", index);
  }
  std::int64_t size_;
  std::function<bool(std::int64_t)> broken_;
  std::atomic<int> reads_ = 0;
};

struct Seen {
  std::vector<float> values;
  std::int64_t position;
};

std::vector<Seen> take(Source& source, std::int64_t batch, std::int64_t position, int count) {
  Loader loader(source, {.batch = batch, .seed = 5, .position = position});
  std::vector<Seen> all;
  for (int i = 0; i < count; ++i) {
    const Batch b = loader.next();
    all.push_back({{b.values.begin(), b.values.end()}, loader.position()});
  }
  return all;
}

TEST(Permutation, HasEveryNumberOnce) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) seen.insert(permuted(i, n, Random(3)));
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), n);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_NE(permuted(0, huge, Random(3)), permuted(1, huge, Random(3)));
  EXPECT_LT(permuted(huge - 1, huge, Random(3)), huge);
}

TEST(Permutation, PutsEveryNumberEverywhere) {
  const int n = 5, epochs = 2000;
  int count[n][n] = {};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int i = 0; i < n; ++i) ++count[i][permuted(i, n, Random(3, static_cast<std::uint64_t>(epoch)))];
  }
  for (const auto& row : count) {
    for (const int times : row) EXPECT_NEAR(times, epochs / n, 5 * 18);  // 18: the standard deviation of a count
  }
}

TEST(Loader, AnEpochHasEveryClipOnceInAnOrderOfItsOwn) {
  NumberedClips source(10);
  const auto all = take(source, 5, 0, 6);
  std::vector<std::vector<float>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<float> seen;
    epochs.emplace_back();
    for (int half = 0; half < 2; ++half) {
      for (const float value : all[static_cast<std::size_t>(epoch * 2 + half)].values) {
        EXPECT_EQ(static_cast<int>(value) / 10, epoch);  // the index tells the epoch
        seen.insert(value);
        epochs.back().push_back(value - static_cast<float>(10 * epoch));
      }
    }
    EXPECT_EQ(seen.size(), 10u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Loader, ABatchHasAllFieldsOfItsClips) {
  NumberedClips source(10);
  Loader loader(source, {.batch = 3});
  const Batch batch = loader.next();
  ASSERT_EQ(batch.values.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const int index = static_cast<int>(batch.values[i]);
    EXPECT_EQ(batch.text[i], -batch.values[i]);
    EXPECT_EQ(batch.labels[i], index % 7);
    EXPECT_EQ(batch.captions[i], fmt::format("{}", index));
  }
}

// Broken clips, some only in some epochs; epochs that do not end with a batch; a start at every place, and the same
// batches from there on.
TEST(Loader, StartedAnywhereItGoesOnAsIfNeverStopped) {
  const auto broken = [](std::int64_t index) { return index % 11 == 3 || index % 11 == 4 || index % 7 == 2; };
  NumberedClips source(11, broken);
  const auto whole = take(source, 4, 0, 20);
  EXPECT_GT(whole.back().position, 5 * 11);
  for (std::size_t stop = 0; stop + 1 < whole.size(); ++stop) {
    NumberedClips fresh(11, broken);  // has seen no broken clip yet
    const int left = static_cast<int>(whole.size() - stop - 1);
    const auto rest = take(fresh, 4, whole[stop].position, left);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].values, whole[stop + 1 + i].values);
      EXPECT_EQ(rest[i].position, whole[stop + 1 + i].position);
    }
  }
}

TEST(Loader, AnotherClipOfTheEpochStandsInForABrokenOneAndNothingElseMoves) {
  NumberedClips sound(8), source(8, [](std::int64_t index) { return index % 8 == 5 || index % 8 == 2; });
  const auto expected = take(sound, 1, 0, 24), all = take(source, 1, 0, 24);
  for (std::size_t i = 0; i < 24; ++i) {
    const int index = static_cast<int>(expected[i].values[0]), got = static_cast<int>(all[i].values[0]);
    if (index % 8 == 5 || index % 8 == 2) {
      EXPECT_EQ(got / 8, index / 8);
      EXPECT_TRUE(got % 8 != 5 && got % 8 != 2);
    } else {
      EXPECT_EQ(got, index);
    }
  }
  EXPECT_EQ(source.skipped(), 2);
}

// Data-parallel ranks: each reads its own clips and no others, and together they have the batch of one rank. Also from
// a place where a run of another number of ranks stopped.
TEST(Loader, RanksReadTheirOwnClipsAndHaveTheBatchOfOneBetweenThem) {
  const auto broken = [](std::int64_t index) { return index % 11 == 3 || index % 7 == 2; };
  for (const std::int64_t position : {0, 15}) {
    NumberedClips whole(11, broken);
    const auto expected = take(whole, 5, position, 6);
    for (const std::vector<std::int64_t>& cut : {std::vector<std::int64_t>{0, 3, 5}, {0, 2, 4, 5}, {0, 1, 1, 5}}) {
      std::vector<std::vector<float>> batches(6);
      for (std::size_t r = 0; r + 1 < cut.size(); ++r) {
        NumberedClips source(11, broken);
        const std::int64_t count = cut[r + 1] - cut[r];
        Loader loader(source, {.batch = 5, .seed = 5, .position = position, .first = cut[r], .count = count});
        for (std::size_t i = 0; i < 6; ++i) {
          const Batch batch = loader.next();
          EXPECT_EQ(loader.position(), expected[i].position);
          ASSERT_EQ(batch.values.size(), static_cast<std::size_t>(count));
          EXPECT_EQ(batch.captions.size(), static_cast<std::size_t>(count));
          batches[i].insert(batches[i].end(), batch.values.begin(), batch.values.end());
        }
      }
      for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(batches[i], expected[i].values);
    }
  }
  NumberedClips source(1000);
  {
    Loader loader(source, {.batch = 100, .first = 40, .count = 2});
    for (int i = 0; i < 10; ++i) loader.next();
  }
  EXPECT_LE(source.reads(), 2 * 14);  // ten batches, those read ahead, and the one at hand
}

TEST(Loader, OneGoodClipIsEnoughAndNoneIsAnError) {
  NumberedClips one(9, [](std::int64_t index) { return index % 9 != 4; });
  for (const Seen& seen : take(one, 2, 3, 4)) EXPECT_EQ(static_cast<int>(seen.values[0]) % 9, 4);
  NumberedClips none(9, [](std::int64_t) { return true; });
  Loader loader(none, {.batch = 2});
  EXPECT_NE(message_of([&] { loader.next(); }).find("none of the 9 training clips can be read"), std::string::npos);
  EXPECT_THROW(loader.next(), Error);  // and again, instead of waiting for ever
}

TEST(Loader, WhatTheThreadThrowsReachesTheCallerInItsTurn) {
  NumberedClips source(100, [](std::int64_t index) {
    if (index >= 100) throw std::runtime_error("disk on fire");  // not an Error: not a matter of one clip
    return false;
  });
  Loader loader(source, {.batch = 50});
  loader.next();
  loader.next();
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_EQ(loader.position(), 100);
}

TEST(Loader, ReadsAheadButNotForEver) {
  NumberedClips source(1000);
  Loader loader(source, {.batch = 10});
  for (int i = 0; i < 200 && source.reads() < 30; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(source.reads(), 30);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source.reads(), 30);
  EXPECT_EQ(loader.position(), 0);
}

TEST(Loader, StopsAtOnceWhereverItIs) {
  NumberedClips source(1000);
  for (int i = 0; i < 50; ++i) {
    Loader loader(source, {.batch = 7});
    if (i % 2 == 0) loader.next();
  }
}

class LoaderFiles : public Files {};

TEST_F(LoaderFiles, ResumesAcrossEpochsOfVideosWithBrokenOnes) {
  REEL_NEEDS_VIDEO();
  for (const char* name : {"a.mp4", "b.mp4", "d.mp4"}) write_mp4(path(name), numbered_frames(12, 16, 16), 10, 1);
  write_file_atomically(path("c.mp4"), "");
  write_mp4(path("e.mp4"), numbered_frames(2, 16, 16), 10, 1);
  const Format format{.channels = 3, .frames = 4, .height = 8, .width = 8};
  const DataConfig config{.source = "folder", .path = path(), .validation = 0};
  const auto source = make_source(config, format, collect());
  const auto whole = take(*source, 2, 0, 7);
  EXPECT_EQ(source->skipped(), 2);
  for (const std::size_t stop : {0u, 2u, 4u}) {
    const auto fresh = make_source(config, format, collect());
    const auto rest = take(*fresh, 2, whole[stop].position, static_cast<int>(6 - stop));
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].values, whole[stop + 1 + i].values);
  }
}

}  // namespace
}  // namespace reel::data
