#include "reel/study/qk_file.h"

#include <cmath>
#include <numeric>

#include "reel/base/testing.h"
#include "reel/study/qk_testing.h"

namespace reel::study {
namespace {

using testing::TempFile;
using testing::Tensors;

std::string opened(const Tensors& tensors) {
  const TempFile file("qk_file_test.safetensors");
  tensors.write(file.path());
  return message_of([&] { QkFile::open(file.path()); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(QkFile, HeadsComeInTheOrderAskedForFromEveryFloatType) {
  Tensors tensors(2, 6, 8);
  tensors["q"].shape = {1, 2, 6, 8};  // a batch of one
  tensors["k"].dtype = Dtype::kF16;
  tensors["v"].dtype = Dtype::kBF16;
  const TempFile path("qk_file_test.safetensors");
  tensors.write(path.path());
  const QkFile file = QkFile::open(path.path());
  EXPECT_EQ(file.heads(), 2);
  EXPECT_EQ(file.tokens(), 6);
  EXPECT_EQ(file.head_dim(), 8);
  EXPECT_TRUE(file.has_values());
  Threads threads(1);
  const std::vector<std::int32_t> order = {5, 0, 3, 1, 2, 4};
  for (const char* name : {"q", "k", "v"}) {
    const Buffer<float> head = file.head(name, 1, order, threads);
    for (std::size_t i = 0; i < 6; ++i) {
      for (std::size_t d = 0; d < 8; ++d) {
        const float expected = tensors[name].values[48 + static_cast<std::size_t>(order[i]) * 8 + d];
        EXPECT_NEAR(head[i * 8 + d], expected, 0.01 * std::abs(static_cast<double>(expected))) << name;
      }
    }
  }
}

TEST(QkFile, SaysWhatIsWrong) {
  Tensors none(2, 6, 8);
  none["k"].name = "key";
  EXPECT_TRUE(has(opened(none), "no tensor 'k'; found: q, key, v")) << opened(none);
  Tensors flat(2, 6, 8);
  flat["q"].shape = {12, 8};
  EXPECT_TRUE(has(opened(flat), "'q' is [12, 8]")) << opened(flat);
  Tensors batch(2, 6, 8);
  batch["k"].shape = {2, 1, 6, 8};
  EXPECT_TRUE(has(opened(batch), "'k' is [2, 1, 6, 8]"));
  Tensors other(2, 6, 8);
  other["k"].shape = {1, 12, 8};
  EXPECT_TRUE(has(opened(other), "q is [2, 6, 8], but k is [1, 12, 8]")) << opened(other);
  Tensors empty(2, 0, 8);
  EXPECT_TRUE(has(opened(empty), "is empty: [2, 0, 8]")) << opened(empty);
  Tensors hidden(2, 6, 8);
  hidden.add("hidden", {5, 16});
  EXPECT_TRUE(has(opened(hidden), "hidden has 5 rows for 6 tokens"));
  Tensors half(2, 6, 8);
  half.add("rope_cos", {6, 4});
  EXPECT_TRUE(has(opened(half), "rope_cos without rope_sin"));
  half.add("rope_sin", {6, 8});
  EXPECT_TRUE(has(opened(half), "[6, 4]")) << opened(half);
}

TEST(QkFile, NumbersThatAreNotFiniteAreNamed) {
  Tensors tensors(2, 6, 8);
  tensors["k"].values[48 + 3 * 8 + 5] = NAN;
  const TempFile path("qk_file_test.safetensors");
  tensors.write(path.path());
  const QkFile file = QkFile::open(path.path());
  Threads threads(1);
  std::vector<std::int32_t> order(6);
  std::iota(order.begin(), order.end(), 0);
  file.head("k", 0, order, threads);
  const std::string message = message_of([&] { file.head("k", 1, order, threads); });
  EXPECT_TRUE(has(message, "k of head 1, token 3, number 5 is nan")) << message;
}

TEST(QkFile, AGridMustHaveAsManyTokens) {
  const TempFile path("qk_file_test.safetensors");
  Tensors(24, 100, 8).write(path.path());
  const QkFile file = QkFile::open(path.path());
  EXPECT_EQ(file.order({4, 5, 5}, {4, 4, 4}).groups(), 4);
  EXPECT_EQ(file.order({}, {4, 4, 4}).group_starts, (std::vector<std::int32_t>{0, 64, 100}));
  EXPECT_TRUE(has(message_of([&] { file.order({4, 5, 6}, {4, 4, 4}); }), "has 120 tokens"));
  EXPECT_TRUE(has(message_of([&] { file.order({2, 3, 4}, {4, 4, 4}); }), "q.transpose(0, 1)"));
}

}  // namespace
}  // namespace reel::study
