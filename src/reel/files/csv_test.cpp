#include "reel/files/csv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "reel/base/testing.h"

namespace reel {
namespace {

TEST(Csv, ReadsQuotesCommasAndLineEndsInFields) {
  const Csv csv = Csv::parse("name,note\n\"a,b\",\"he said \"\"no\"\"\"\n\"two\nlines\",\n\"\",x\n", "t.csv");
  ASSERT_EQ(csv.rows(), 3u);
  EXPECT_EQ(csv.columns(), (std::vector<std::string>{"name", "note"}));
  EXPECT_EQ(csv.text(0, "name"), "a,b");
  EXPECT_EQ(csv.text(0, "note"), "he said \"no\"");
  EXPECT_EQ(csv.text(1, "name"), "two\nlines");
  EXPECT_EQ(csv.text(1, "note"), "");
  EXPECT_EQ(csv.text(2, "name"), "");
  EXPECT_EQ(csv.line(1), 3u);
  EXPECT_EQ(csv.line(2), 5u);  // after the line end inside the quotes
}

TEST(Csv, LineEndsMarksAndBlankLinesDoNotMatter) {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "\xef\xbb\xbf\n\na,b\n\n1,2\n\r\n3,4"}) {
    const Csv csv = Csv::parse(text, "t.csv");
    EXPECT_EQ(csv.columns(), (std::vector<std::string>{"a", "b"}));
    ASSERT_EQ(csv.rows(), 2u);
    EXPECT_EQ(csv.number(1, "b"), 4);
  }
  EXPECT_EQ(Csv::parse("a,b", "t.csv").rows(), 0u);
  EXPECT_EQ(Csv::parse("a,b\n1,", "t.csv").text(0, 1), "");
}

TEST(Csv, NumbersAreWholeFieldsOrErrorsWithTheirPlace) {
  const Csv csv = Csv::parse("x\n1.5e3\n +7 \n-inf\nnan\nfast\n1 2\n\"\"\n1e999\n0x10\n+-1\n", "t.csv");
  EXPECT_EQ(csv.number(0, "x"), 1500);
  EXPECT_EQ(csv.number(1, "x"), 7);
  EXPECT_EQ(csv.integer(1, "x"), 7);
  EXPECT_EQ(csv.number(2, "x"), -INFINITY);
  EXPECT_TRUE(std::isnan(csv.number(3, "x")));
  EXPECT_EQ(message_of([&] { csv.number(4, "x"); }),
            "t.csv:6: x must be a number, found \"fast\" | correct the cell, or remove the row");
  EXPECT_NE(message_of([&] { csv.number(6, "x"); }).find("t.csv:8: x must be a number, found nothing"),
            std::string::npos);
  for (std::size_t row : {5u, 7u, 8u, 9u}) EXPECT_THROW(csv.number(row, "x"), Error) << row;
  EXPECT_NE(message_of([&] { csv.integer(0, "x"); }).find("must be a whole number"), std::string::npos);
}

TEST(Csv, AnUnknownColumnNamesTheNearest) {
  const Csv csv = Csv::parse("step,seconds\n", "t.csv");
  EXPECT_TRUE(csv.has("step"));
  EXPECT_FALSE(csv.has("second"));
  EXPECT_EQ(message_of([&] { csv.column("second"); }),
            "t.csv:1: there is no column 'second' | did you mean 'seconds'?");
  EXPECT_EQ(message_of([&] { csv.column("loss"); }),
            "t.csv:1: there is no column 'loss' | known columns: step, seconds");
}

TEST(Csv, BrokenTablesSayWhatIsWrongAndWhere) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"", "t.csv: there is no header line"},
      {"\n\n", "t.csv: there is no header line"},
      {"a,b\n1,2\n3\n", "t.csv:3: 1 fields, the header has 2"},
      {"a,b\n1,2,3\n", "t.csv:2: 3 fields, the header has 2"},
      {"a,b\n\"x\ny\",1\n5,6,7\n", "t.csv:4: 3 fields"},
      {"a,a\n", "t.csv:1: two columns 'a'"},
      {"a,,c\n", "t.csv:1: a column has no name"},
      {"a,b\n1,\"2\n3\n", "t.csv:2: a quoted field has no closing quote"},
      {"a,b\n1,\"", "t.csv:2: a quoted field has no closing quote"},
      {"a,b\n\"1\"x,2\n", "t.csv:2: text after the closing quote"},
      {"a,b\n1\"1,2\n", "t.csv:2: a quote inside a field"},
      {"a,b\r1,2\r", "t.csv:1: a carriage return without"},
      {std::string("a,b\n1,\0\n", 8), "t.csv:2: the byte 0x00 is not text"},
      {"a,b\n1,2\n3,\xff\n", "t.csv:3: the byte 0xff is not text"},
  };
  for (const auto& [text, expected] : all) {
    const std::string message = message_of([&] { Csv::parse(text, "t.csv"); });
    EXPECT_EQ(message.find(expected), 0u) << message << "\n  expected " << expected;
    EXPECT_FALSE(message.ends_with("| ")) << "no hint: " << message;
  }
  EXPECT_THROW(Csv::load("no/such.csv"), Error);
}

TEST(Csv, WhatWasWrittenIsReadToTheLastBit) {
  const std::vector<std::string> texts = {"plain", "", "a,b", "\"", "two\nlines", "cr\r", " spaces ", "gr\xc3\xbcn"};
  const double third = 1.0 / 3;
  CsvWriter writer({"text", "number", "count"});
  for (std::size_t i = 0; i < texts.size(); ++i) writer.add(texts[i], third * static_cast<double>(i), i);
  const std::string path = testing::TempDir() + "reel_csv_test.csv";
  writer.write(path);
  const Csv csv = Csv::load(path);
  std::filesystem::remove(path);
  ASSERT_EQ(csv.rows(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(csv.text(i, "text"), texts[i]);
    EXPECT_EQ(csv.number(i, "number"), third * static_cast<double>(i));
    EXPECT_EQ(csv.integer(i, "count"), static_cast<std::int64_t>(i));
  }
}

TEST(Csv, AnEmptyCellOfASingleColumnIsNotABlankLine) {
  CsvWriter writer({"x"});
  writer.add("");
  EXPECT_EQ(writer.text(), "x\n\"\"\n");
  EXPECT_EQ(Csv::parse(writer.text(), "t.csv").rows(), 1u);
}

}  // namespace
}  // namespace reel
