#include "reel/files/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "reel/base/error.h"
#include "reel/base/testing.h"
#include "reel/files/folder_testing.h"
#include "reel/files/half.h"

namespace reel {
namespace {

std::string file_of(const std::string& header, const std::string& data = {}) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + data;
}

SafetensorsFile parse(const std::string& file) {
  return SafetensorsFile::from_bytes(std::as_bytes(std::span(file.data(), file.size())), "weights");
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// One tensor `x` of this dtype with these bytes.
std::string single(const std::string& dtype, std::size_t elements, const std::string& data) {
  const std::string header =
      fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype, elements, data.size());
  return file_of(header, data);
}

std::vector<float> floats(const std::string& file) {
  const Buffer<float> values = parse(file).read_f32("x");
  return {values.begin(), values.end()};
}

class SafetensorsFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  TempFolder folder_;
};

TEST_F(SafetensorsFiles, WhatWasWrittenIsRead) {
  std::vector<float> weights(40000);  // more than one chunk of conversion
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(static_cast<float>(i)) * 100;
  weights[5] = std::numeric_limits<float>::quiet_NaN();
  weights[6] = -std::numeric_limits<float>::infinity();
  const std::vector<std::uint8_t> flags = {0, 1, 7};
  const std::vector<std::int32_t> keys = {-1, 0, std::numeric_limits<std::int32_t>::max()};
  const std::vector<std::int64_t> offsets = {std::numeric_limits<std::int64_t>::min(), 5};
  const float scale = 0.5f;
  SafetensorsWriter writer;
  writer.add("flags", {3}, flags, Dtype::kBool);
  writer.add("w.bf16", {200, 200}, weights, Dtype::kBF16);
  writer.add("bytes", {3, 1}, flags);
  writer.add("w", {2, 20000}, weights);
  writer.add("keys", {3}, keys);
  writer.add("w.f16", {40000}, weights, Dtype::kF16);
  writer.add("none", {0, 4}, std::span<const float>());
  writer.add("scale", {}, std::span(&scale, 1));
  writer.add("offsets", {2}, offsets);
  writer.set_metadata("format", "pt");
  writer.set_metadata("note", "quotes \" and \n lines, gr\xc3\xbcn");
  writer.write(path("a.safetensors"));

  const SafetensorsFile file = SafetensorsFile::open(path("a.safetensors"));
  const std::vector<std::string> order = {"offsets", "w", "keys", "none", "scale", "w.bf16", "w.f16", "flags", "bytes"};
  EXPECT_EQ(file.names(), order);
  EXPECT_EQ(file.metadata().at("note"), "quotes \" and \n lines, gr\xc3\xbcn");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.info("w").shape, (std::vector<std::int64_t>{2, 20000}));
  EXPECT_EQ(file.info("w.bf16").bytes, 80000u);
  EXPECT_EQ(file.info("none").elements, 0u);
  EXPECT_TRUE(file.info("scale").shape.empty());
  EXPECT_EQ(file.read_f32("scale")[0], 0.5f);
  for (const std::string& name : file.names()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.raw(name).data()) % dtype_size(file.info(name).dtype), 0u) << name;
  }
  const Buffer<float> f32 = file.read_f32("w"), bf16 = file.read_f32("w.bf16"), f16 = file.read_f32("w.f16");
  EXPECT_EQ(std::memcmp(f32.data(), weights.data(), weights.size() * sizeof(float)), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (std::isnan(weights[i])) {
      EXPECT_TRUE(std::isnan(bf16[i]) && std::isnan(f16[i]));
      continue;
    }
    ASSERT_EQ(bf16[i], f32_from_bf16(bf16_from_f32(weights[i])));
    ASSERT_EQ(f16[i], f32_from_f16(f16_from_f32(weights[i])));
  }
  EXPECT_EQ(file.read_i32("keys"), keys);
  EXPECT_EQ(file.read_i64("offsets"), offsets);
  EXPECT_EQ(file.read_u8("flags"), (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(file.read_u8("bytes"), flags);
}

TEST_F(SafetensorsFiles, AnEmptyFileOfTensorsIsAFile) {
  SafetensorsWriter().write(path("empty"));
  EXPECT_TRUE(SafetensorsFile::open(path("empty")).names().empty());
  EXPECT_EQ(std::filesystem::file_size(path("empty")) % 8, 0u);
}

TEST_F(SafetensorsFiles, MovingKeepsTheMapping) {
  const std::vector<float> values = {1, 2, 3};
  SafetensorsWriter writer;
  writer.add("x", {3}, values);
  writer.write(path("a"));
  SafetensorsFile first = SafetensorsFile::open(path("a"));
  const SafetensorsFile second(std::move(first));
  EXPECT_EQ(second.read_f32("x")[2], 3.0f);
}

TEST_F(SafetensorsFiles, TheWriterRefusesWhatCouldNotBeRead) {
  const std::vector<float> values(6);
  SafetensorsWriter writer;
  writer.add("x", {2, 3}, values);
  EXPECT_NE(message_of([&] { writer.add("x", {6}, values); }).find("'x' is written twice"), std::string::npos);
  EXPECT_NE(message_of([&] {
              writer.add("y", {2, 2}, values);
            }).find("shape [2, 2] and 6 elements"),
            std::string::npos);
  EXPECT_THROW(writer.add("z", {-2, -3}, values), Error);
  EXPECT_THROW(writer.add("__metadata__", {6}, values), Error);
  EXPECT_THROW(writer.add("\xff", {6}, values), Error);
  EXPECT_THROW(writer.set_metadata("a", "\xff"), Error);
  EXPECT_THROW(writer.write(path("no/such/folder")), Error);
}

TEST(Safetensors, EveryDtypeBecomesFloat) {
  EXPECT_EQ(floats(single("F64", 2, bytes_of<double>({0.1, 1e300}))), (std::vector<float>{0.1f, INFINITY}));
  EXPECT_EQ(floats(single("F32", 1, bytes_of<float>({-2.5f}))), (std::vector<float>{-2.5f}));
  EXPECT_EQ(floats(single("F16", 2, bytes_of<std::uint16_t>({0x3c00, 0xc000}))), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats(single("BF16", 2, bytes_of<std::uint16_t>({0x3f80, 0xc000}))), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats(single("F8_E4M3", 2, "\x38\xc0")), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats(single("F8_E5M2", 2, "\x3c\xc0")), (std::vector<float>{1, -2}));
  EXPECT_EQ(floats(single("I64", 1, bytes_of<std::int64_t>({-3}))), (std::vector<float>{-3}));
  EXPECT_EQ(floats(single("I32", 1, bytes_of<std::int32_t>({-3}))), (std::vector<float>{-3}));
  EXPECT_EQ(floats(single("I16", 1, bytes_of<std::int16_t>({-3}))), (std::vector<float>{-3}));
  EXPECT_EQ(floats(single("I8", 1, bytes_of<std::int8_t>({-3}))), (std::vector<float>{-3}));
  EXPECT_EQ(floats(single("U64", 1, bytes_of<std::uint64_t>({~0ull}))), (std::vector<float>{0x1p64f}));
  EXPECT_EQ(floats(single("U32", 1, bytes_of<std::uint32_t>({~0u}))), (std::vector<float>{0x1p32f}));
  EXPECT_EQ(floats(single("U16", 1, bytes_of<std::uint16_t>({0xffff}))), (std::vector<float>{65535}));
  EXPECT_EQ(floats(single("U8", 1, "\xff")), (std::vector<float>{255}));
  EXPECT_EQ(floats(single("BOOL", 3, std::string("\0\1\2", 3))), (std::vector<float>{0, 1, 1}));
}

TEST(Safetensors, APartOfATensorIsReadAlone) {
  const std::string file = single("F16", 4, bytes_of<std::uint16_t>({0x3c00, 0xc000, 0x4200, 0}));
  std::vector<float> part(2);
  parse(file).read_f32("x", 1, part);
  EXPECT_EQ(part, (std::vector<float>{-2, 3}));
  parse(file).read_f32("x", 4, std::span<float>());
  for (const std::size_t first : {std::size_t{3}, std::size_t{5}, ~std::size_t{0}}) {
    EXPECT_EQ(message_of([&] { parse(file).read_f32("x", first, part); }),
              fmt::format("weights: tensor 'x' has 4 elements, of which 2 from {} on were asked for | ask for elements "
                          "that it has",
                          first));
  }
}

TEST(Safetensors, IntegersAreExactOrRefused) {
  const std::string wide = single("I64", 2, bytes_of<std::int64_t>({7, std::int64_t{1} << 40}));
  EXPECT_EQ(parse(wide).read_i64("x")[1], std::int64_t{1} << 40);
  EXPECT_NE(message_of([&] { parse(wide).read_i32("x"); }).find("weights: tensor 'x': element 1 is 1099511627776"),
            std::string::npos);
  EXPECT_THROW(parse(single("U64", 1, bytes_of<std::uint64_t>({~0ull}))).read_i64("x"), Error);
  EXPECT_THROW(parse(single("I8", 1, "\xff")).read_u8("x"), Error);
  EXPECT_EQ(parse(single("U16", 1, "\xff\xff")).read_i32("x")[0], 65535);
  EXPECT_EQ(message_of([] { parse(single("F32", 1, "abcd")).read_i64("x"); }),
            "weights: tensor 'x' is F32, whole numbers are needed | store it as I64 or I32");
}

TEST(Safetensors, AnUnknownTensorNamesTheNearest) {
  const std::string file = file_of(
      R"({"blocks.0.q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      "ab");
  EXPECT_EQ(message_of([&] { parse(file).info("block.0.q"); }),
            "weights: there is no tensor 'block.0.q' | did you mean 'blocks.0.q'?");
  EXPECT_EQ(message_of([&] { parse(file).read_f32("optimizer"); }),
            "weights: there is no tensor 'optimizer' | known tensors: blocks.0.q, b");
  EXPECT_FALSE(parse(file).contains("q"));
  std::vector<float> two(2);
  EXPECT_EQ(message_of([&] { parse(file).read_f32("b", two); }),
            "weights: tensor 'b' has 1 elements ([1]), 2 are needed | the file belongs to a model of another size");
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const std::string file = file_of(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   )",
      "ab");
  EXPECT_EQ(parse(file).names(), (std::vector<std::string>{"a", "b"}));
}

struct Bad {
  std::string file, message;
};

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

TEST(Safetensors, BrokenFilesSayWhatIsWrong) {
  const auto x = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_of("{\"x\":" + tensor(dtype, shape, offsets) + "}", "abcd");
  };
  const std::string one = tensor("U8", "[2]", "[0,2]"), two = tensor("U8", "[2]", "[2,4]");
  const std::string over = tensor("U8", "[3]", "[1,4]"), late = tensor("U8", "[1]", "[3,4]");
  const std::vector<Bad> all = {
      {"", "only 0 bytes"},
      {"1234567", "only 7 bytes"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "header of 18446744073709551615 bytes"},
      {file_of("{}").substr(0, 9), "does not end within the 9 bytes"},
      {file_of(""), "does not begin with '{'"},
      {file_of(" {}"), "does not begin with '{'"},
      {file_of("{\"\xff\":1}"), "not UTF-8 at its byte 2"},
      {file_of("{"), "not valid JSON"},
      {file_of("{}x"), "not valid JSON"},
      {file_of("{\"a\":" + std::string(100000, '[')), "'a' cannot be or hold an array"},
      {file_of("{\"a\":1}"), "'a' cannot be or hold a number"},
      {file_of("{\"a\":null}"), "'a' cannot be or hold null"},
      {file_of("{\"a\":{\"shape\":[[]]}}"), "tensor 'a': 'shape' cannot be or hold an array"},
      {file_of("{\"a\":{\"color\":3}}"), "tensor 'a': unknown property 'color'"},
      {file_of("{\"a\":{}}"), "tensor 'a': dtype is missing"},
      {file_of("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}"), "tensor 'a': dtype appears twice"},
      {file_of("{\"__metadata__\":{\"a\":1}}"), "'a' cannot be or hold a number"},
      {file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"), "__metadata__ has 'a' twice"},
      {file_of("{\"__metadata__\":{},\"__metadata__\":{}}"), "__metadata__ appears twice"},
      {file_of("{\"__metadata__\":[]}"), "cannot be or hold an array"},
      {x("U9", "[4]", "[0,4]"), "tensor 'x': unknown dtype 'U9'"},
      {x("U8", "[-4]", "[0,4]"), "tensor 'x': shape has the negative number -4"},
      {x("U8", "[4.0]", "[0,4]"), "tensor 'x': shape has 4.0, not a whole number"},
      {x("U8", "[18446744073709551616]", "[0,4]"), "not a whole number"},
      {x("U8", "[18446744073709551615]", "[0,4]"), "the shape overflows"},
      {x("U8", "[4294967296,4294967296]", "[0,4]"), "the shape overflows"},
      {x("F64", "[2305843009213693952]", "[0,4]"), "the shape overflows"},
      {x("U8", "[4]", "[4,0]"), "end before they begin"},
      {x("U8", "[5]", "[0,5]"), "reach beyond the 4 bytes of data"},
      {x("U8", "[3]", "[0,4]"), "hold 4 bytes, the shape needs 3"},
      {x("U8", "[4]", "[0,2,4]"), "data_offsets must be two numbers"},
      {x("U8", "[2]", "[0,2]"), "2 bytes at the end belong to no tensor"},
      {x("U8", "[2]", "[2,4]"), "2 bytes before it belong to no tensor"},
      {file_of("{\"x\":" + one + ",\"y\":" + over + "}", "abcd"), "tensors 'x' and 'y' overlap at byte 1"},
      {file_of("{\"x\":" + one + ",\"y\":" + late + "}", "abcd"), "tensor 'y': 1 bytes before it"},
      {file_of("{\"x\":" + one + ",\"x\":" + two + "}", "abcd"), "tensor 'x' appears twice"},
  };
  for (const Bad& bad : all) {
    const std::string message = message_of([&] { parse(bad.file); });
    EXPECT_EQ(message.find("weights: "), 0u) << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << message << "\n  expected " << bad.message;
    EXPECT_FALSE(message.ends_with("| ")) << "no hint: " << message;
  }
}

// Python's safetensors wrote tests/fuzz/safetensors_fuzz/python: float16, bfloat16, int64 and bool of known values.
TEST(Safetensors, ReadsWhatTheReferenceImplementationWrote) {
  const SafetensorsFile file =
      SafetensorsFile::open(std::string(REEL_SOURCE_DIR) + "/tests/fuzz/safetensors_fuzz/python");
  for (const char* name : {"f16", "f32", "f64", "i64"}) {
    const Buffer<float> values = file.read_f32(name);
    ASSERT_EQ(values.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(values[i], static_cast<float>(i) - 2.0f) << name;
    EXPECT_EQ(file.info(name).shape, (std::vector<std::int64_t>{2, 3}));
  }
  EXPECT_EQ(file.read_u8("flags"), (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(file.metadata().at("writer"), "python");
}

}  // namespace
}  // namespace reel
