#include "reel/kernels/gemm.h"

#include "reel/kernels/reference.h"
#include "reel/kernels/testing.h"

namespace reel::kernels {
namespace {

using testing::Array;
using testing::for_every_target;

// A product with its memory, which ends where each matrix ends; rows lie `gap` floats further apart than they need to.
struct Product {
  Gemm g{};
  Array a, b, c, bias, before;
  Product(Form form, std::size_t rows, std::size_t columns, std::size_t depth, std::size_t gap = 0)
      : a(form == Form::kDytX ? random(depth, rows, gap, 1) : random(rows, depth, gap, 1)),
        b(form == Form::kXWt ? random(columns, depth, gap, 2) : random(depth, columns, gap, 2)),
        c(random(rows, columns, gap, 3)),
        bias(random(1, columns, 0, 4)),
        before(random(rows, columns, gap, 5)) {
    g.form = form, g.rows = rows, g.columns = columns, g.depth = depth;
    g.a = {a.data(), (form == Form::kDytX ? rows : depth) + gap};
    g.b = {b.data(), (form == Form::kXWt ? depth : columns) + gap};
    g.c = c.data(), g.c_stride = columns + gap;
  }
  static Array random(std::size_t rows, std::size_t width, std::size_t gap, std::uint64_t stream) {
    return testing::random_array(rows == 0 ? 0 : rows * (width + gap) - gap, stream * 100003 + rows);
  }
  double sum(std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t k = 0; k < g.depth; ++k) {
      const float x = g.form == Form::kDytX ? g.a.data[k * g.a.stride + i] : g.a.data[i * g.a.stride + k];
      const float w = g.form == Form::kXWt ? g.b.data[j * g.b.stride + k] : g.b.data[k * g.b.stride + j];
      sum += static_cast<double>(x) * w;
    }
    return sum;
  }
};

void expect_matches_reference(Product& p, Threads& threads) {
  SCOPED_TRACE(fmt::format("form {}, {} x {} x {}", static_cast<int>(p.g.form), p.g.rows, p.g.columns, p.g.depth));
  const Array old = p.c;
  gemm(p.g, threads);
  // Rounding of a sum of n products of normal numbers: sqrt(n) terms, each step half an ulp of about sqrt(n).
  const double tolerance = 1e-6 * (4 + static_cast<double>(p.g.depth));
  for (std::size_t at = 0; at < p.c.size(); ++at) {
    const std::size_t r = at / p.g.c_stride, c = at % p.g.c_stride;
    if (c >= p.g.columns) {
      ASSERT_EQ(p.c[at], old[at]);  // nothing written beside the result
      continue;
    }
    const double want = p.sum(r, c) + (p.g.accumulate ? old[at] : 0) + (p.g.bias != nullptr ? p.bias[c] : 0);
    ASSERT_NEAR(p.c[at], reference::activation(p.g.activation, want), tolerance) << r << ", " << c;
    if (p.g.before != nullptr) {
      ASSERT_NEAR(p.before[at], want, tolerance) << r << ", " << c;
    }
  }
}

TEST(Gemm, EveryFormAndEpilogueMatchesTheReferenceOnEveryTarget) {
  for_every_target([] {
    Threads threads(2);
    const Random random(test_seed(), 5);
    for (std::uint64_t i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
      const auto below = [&](std::uint64_t which, std::uint64_t n) { return random.below(i * 10 + which, n); };
      const std::uint64_t most = i % 20 == 0 ? 300 : 50;
      const std::size_t depth = i % 40 == 0 ? 2049 + below(2, 700) : below(2, most);  // several slices
      const Form form = static_cast<Form>(i % 3);
      const std::size_t more = form == Form::kXWt && below(8, 2) == 0 ? 64 : 0;  // rows of which W is packed
      Product p(form, more + 1 + below(0, most), 1 + below(1, most), depth, below(3, 3));
      p.g.accumulate = below(4, 2) == 0;
      if (below(5, 2) == 0) p.g.bias = p.bias.data();
      p.g.activation = static_cast<Activation>(below(6, 4));
      if (below(7, 2) == 0) p.g.before = p.before.data();
      SCOPED_TRACE(fmt::format("REEL_TEST_SEED={}, case {}", test_seed(), i));
      expect_matches_reference(p, threads);
    }
  });
}

// Enough rows that each thread packs its own.
TEST(Gemm, ManyRowsMatchTheReferenceOnEveryTarget) {
  for_every_target([] {
    Threads threads(1);
    for (Form form : {Form::kXWt, Form::kDyW, Form::kDytX}) {
      Product rows(form, 2401, 201, 37, 1);
      rows.g.bias = rows.bias.data();
      expect_matches_reference(rows, threads);
    }
  });
}

// More columns than are packed at once (L3 of up to 500 MB): as many columns have the same bits in calls of their own.
TEST(Gemm, WideLayersAreTheirColumnsSideBySide) {
  Threads threads(2);
  for (Form form : {Form::kXWt, Form::kDyW, Form::kDytX}) {
    Product wide(form, form == Form::kXWt ? 66 : 5, 9001, 2048), parts(form, wide.g.rows, 9001, 2048);
    for (Product* p : {&wide, &parts}) {
      p->g.bias = p->bias.data(), p->g.before = p->before.data();
      p->g.accumulate = true, p->g.activation = Activation::kSilu;
    }
    gemm(wide.g, threads);
    for (std::size_t first = 0; first < 9001; first += 1000) {
      Gemm part = parts.g;
      part.columns = std::min<std::size_t>(1000, 9001 - first);
      part.b.data += first * (form == Form::kXWt ? part.b.stride : 1);
      part.c += first, part.before += first, part.bias += first;
      gemm(part, threads);
    }
    testing::expect_same_bits(wide.c, parts.c);
    testing::expect_same_bits(wide.before, parts.before);
  }
}

// As few rows as do without packing W, in panels of every width, and one more.
TEST(Gemm, FewRowsMatchTheReferenceOnEveryTarget) {
  for_every_target([] {
    Threads threads(2);
    for (std::size_t rows : {1, 4, 5, 8, 9, 15, 16, 17, 32, 33, 50, 64, 65}) {
      Product p(Form::kXWt, rows, 150, 67, 1);
      p.g.bias = p.bias.data(), p.g.accumulate = true, p.g.activation = Activation::kSilu;
      expect_matches_reference(p, threads);
    }
  });
}

// Until there are tiles of bf16, allowing them changes nothing.
TEST(Gemm, Bf16MayBeAskedForAnywhere) {
  Threads threads(1);
  Product exact(Form::kXWt, 90, 50, 40), allowed(Form::kXWt, 90, 50, 40);
  allowed.g.precision = Precision::kBf16;
  gemm(exact.g, threads);
  gemm(allowed.g, threads);
  testing::expect_same_bits(exact.c, allowed.c);
}

TEST(Gemm, AnyNumberOfThreadsGivesTheSameBits) {
  for (Form form : {Form::kXWt, Form::kDyW, Form::kDytX}) {
    for (std::size_t rows : {3, 200, 1300}) {  // 1300: rows are packed by the thread that uses them
      const std::size_t columns = rows > 1000 ? 70 : 333;
      Product one(form, rows, columns, 2100);
      Threads single(1);
      gemm(one.g, single);
      for (int count : {2, 3, 8}) {
        Product many(form, rows, columns, 2100);
        Threads threads(count);
        gemm(many.g, threads);
        EXPECT_EQ(std::memcmp(one.c.data(), many.c.data(), one.c.size() * sizeof(float)), 0);
      }
    }
  }
}

// Ranks have some of the rows, one rank all of them.
TEST(Gemm, ARowHasTheSameBitsWhateverRowsAreBesideIt) {
  Threads threads(1);
  for (Form form : {Form::kXWt, Form::kDyW}) {
    for (const bool accumulate : {false, true}) {
      Product all(form, 160, 70, 2100), some(form, 160, 70, 2100);
      for (Product* p : {&all, &some}) p->g.bias = p->bias.data(), p->g.accumulate = accumulate;
      gemm(all.g, threads);
      const float* a = some.g.a.data;
      float* c = some.g.c;
      some.g.rows = 0;
      for (const std::size_t rows : {1, 2, 5, 7, 16, 17, 2, 40, 70}) {  // few at a time, and more than a panel is wide
        a += some.g.rows * some.g.a.stride, c += some.g.rows * some.g.c_stride;
        some.g.rows = rows, some.g.a.data = a, some.g.c = c;
        gemm(some.g, threads);
      }
      EXPECT_EQ(std::memcmp(all.c.data(), some.c.data(), all.c.size() * sizeof(float)), 0);
    }
  }
}

TEST(Gemm, NothingToSumLeavesBiasAndWhatWasThere) {
  Threads threads(1);
  Product p(Form::kDyW, 20, 5, 0);
  p.g.bias = p.bias.data();
  gemm(p.g, threads);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(p.c[i], p.bias[i % 5]);
  p.g.accumulate = true;
  gemm(p.g, threads);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(p.c[i], 2 * p.bias[i % 5]);
}

TEST(Gemm, NanReachesItsRowAndColumnOnly) {
  for_every_target([] {
    Threads threads(2);
    for (const auto& [form, rows] :
         {std::pair(Form::kXWt, 40), {Form::kXWt, 90}, {Form::kDyW, 90}, {Form::kDytX, 90}}) {
      Product p(form, static_cast<std::size_t>(rows), 30, 20);
      const auto at = [](bool transposed, std::size_t i, std::size_t k, std::size_t stride) {
        return transposed ? k * stride + i : i * stride + k;
      };
      p.a[at(form == Form::kDytX, 89 % p.g.rows, 3, p.g.a.stride)] = std::numeric_limits<float>::quiet_NaN();
      p.b[at(form != Form::kXWt, 9, 1, p.g.b.stride)] = std::numeric_limits<float>::quiet_NaN();
      gemm(p.g, threads);
      for (std::size_t i = 0; i < p.g.rows; ++i) {
        for (std::size_t j = 0; j < 30; ++j) EXPECT_EQ(std::isnan(p.c[i * 30 + j]), i == 89 % p.g.rows || j == 9);
      }
    }
  });
}

}  // namespace
}  // namespace reel::kernels
