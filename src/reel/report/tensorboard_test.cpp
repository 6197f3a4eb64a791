#include "reel/report/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "reel/base/testing.h"
#include "reel/files/crc32c.h"
#include "reel/files/file.h"

namespace reel::report {
namespace {

TEST(Crc32c, MatchesPublishedVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// The reader's side, written from the format and not from the writer.
template <class Number>
Number take(std::string_view& bytes) {
  EXPECT_GE(bytes.size(), sizeof(Number));
  Number value{};
  std::memcpy(&value, bytes.data(), sizeof(Number));
  bytes.remove_prefix(sizeof(Number));
  return value;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::string_view rest = file; !rest.empty();) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(unmasked(take<std::uint32_t>(rest)), crc32c(length_bytes));
    records.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
    EXPECT_EQ(unmasked(take<std::uint32_t>(rest)), crc32c(records.back()));
  }
  return records;
}

struct Field {
  std::uint64_t number = 0, integer = 0;
  std::string_view bytes;  // of every type but the varint
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    Field field;
    field.number = key >> 3;
    if ((key & 7) == 0) {
      field.integer = take_varint(message);
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : take_varint(message);
      field.bytes = message.substr(0, size);
      message.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

template <class Number>
Number as(std::string_view bytes) {
  EXPECT_EQ(bytes.size(), sizeof(Number));
  return take<Number>(bytes);
}

class EventFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = testing::TempDir() + "reel_tensorboard_test";
};

TEST_F(EventFileTest, ScalarsCanBeDecoded) {
  EventFile file(folder_);
  file.scalar("loss/train", 300, 0.25, 1700000000.5);
  file.scalar("µ", 0, NAN, 1700000001);
  const std::vector<std::string> records = records_of(read_file(file.path()));
  ASSERT_EQ(records.size(), 4u);

  const auto version = fields_of(records[0]);
  ASSERT_EQ(version.size(), 2u);
  EXPECT_EQ(version[1].number, 3u);
  EXPECT_EQ(version[1].bytes, "brain.Event:2");

  const auto start = fields_of(records[1]);
  EXPECT_EQ(start.size(), 2u);  // a time and a session start, no step: 0
  EXPECT_EQ(start.back().number, 7u);

  const auto event = fields_of(records[2]);
  ASSERT_EQ(event.size(), 3u);
  EXPECT_EQ(as<double>(event[0].bytes), 1700000000.5);
  EXPECT_EQ(event[1].number, 2u);
  EXPECT_EQ(event[1].integer, 300u);
  EXPECT_EQ(event[2].number, 5u);
  const auto summary = fields_of(event[2].bytes);
  ASSERT_EQ(summary.size(), 1u);
  const auto value = fields_of(summary[0].bytes);
  ASSERT_EQ(value.size(), 2u);
  EXPECT_EQ(value[0].number, 1u);
  EXPECT_EQ(value[0].bytes, "loss/train");
  EXPECT_EQ(value[1].number, 2u);
  EXPECT_EQ(as<float>(value[1].bytes), 0.25f);

  const auto second = fields_of(fields_of(fields_of(records[3]).back().bytes)[0].bytes);
  EXPECT_EQ(second[0].bytes, "µ");
  EXPECT_TRUE(std::isnan(as<float>(second[1].bytes)));
}

TEST_F(EventFileTest, AResumedRunStartsAFileThatSortsBehindAndSaysFromWhichStepItCounts) {
  const EventFile first(folder_);
  const EventFile resumed(folder_, 100);
  EXPECT_LT(first.path(), resumed.path());
  EXPECT_NE(first.path().find("/events.out.tfevents."), std::string::npos);
  const std::vector<std::string> records = records_of(read_file(resumed.path()));
  ASSERT_EQ(records.size(), 2u);
  const auto start = fields_of(records[1]);
  ASSERT_EQ(start.size(), 3u);
  EXPECT_EQ(start[1].integer, 101u);
  EXPECT_EQ(start[2].number, 7u);
  EXPECT_EQ(fields_of(start[2].bytes)[0].number, 1u);
  EXPECT_EQ(fields_of(start[2].bytes)[0].integer, 1u);  // SessionLog.START
}

TEST_F(EventFileTest, AMissingFolderIsAnError) {
  const std::string message = message_of([&] { EventFile(folder_ + "/none"); });
  EXPECT_EQ(message.find(folder_ + "/none/events.out.tfevents."), 0u) << message;
}

}  // namespace
}  // namespace reel::report
