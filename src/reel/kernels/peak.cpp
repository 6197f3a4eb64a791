#include "reel/kernels/peak.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/kernels/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/peak.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include "reel/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {

// Independent chains: latency 4-5 times two units, with a margin.
constexpr int kChains = 12;

// `rounds` multiply-adds on each of kChains vectors; returns flops done. The values stay finite: x = x * a + b
// converges.
double MultiplyAdd(std::size_t rounds, float* out) {
  const DF d;
  VF x[kChains];
  const VF a = hn::Set(d, out[0]), b = hn::Set(d, out[1]);
  Unroll<kChains>([&](auto i) REEL_INLINE { x[i] = hn::Set(d, static_cast<float>(i)); });
  for (std::size_t k = 0; k < rounds; ++k) {
    Unroll<kChains>([&](auto i) REEL_INLINE { x[i] = hn::MulAdd(x[i], a, b); });
  }
  VF sum = hn::Zero(d);
  Unroll<kChains>([&](auto i) REEL_INLINE { sum = hn::Add(sum, x[i]); });
  out[2] = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * kChains * static_cast<double>(kLanes) * static_cast<double>(rounds);
}

// One pass over n floats (a multiple of 8 vectors).
void Pass(int traffic, const float* HWY_RESTRICT from, float* HWY_RESTRICT to, std::size_t n) {
  const DF d;
  VF sum[8];
  Unroll<8>([&](auto j) REEL_INLINE { sum[j] = hn::Zero(d); });
  for (std::size_t i = 0; i < n; i += 8 * kLanes) {
    if (traffic == 0) {
      Unroll<8>([&](auto j) REEL_INLINE { sum[j] = hn::Add(sum[j], hn::LoadU(d, from + i + j * kLanes)); });
    } else if (traffic == 1) {
      Unroll<8>([&](auto j) REEL_INLINE { hn::StoreU(sum[j], d, to + i + j * kLanes); });
    } else {
      Unroll<8>([&](auto j) REEL_INLINE { hn::StoreU(hn::LoadU(d, from + i + j * kLanes), d, to + i + j * kLanes); });
    }
  }
  Unroll<7>([&](auto j) REEL_INLINE { sum[0] = hn::Add(sum[0], sum[j + 1]); });
  if (traffic == 0) hn::StoreU(sum[0], d, to);
}

}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(Pass);

namespace {

// Best rate of work(thread) -> amount, run by all threads at the same time: every thread takes exactly one chunk,
// because none returns before all have begun. Threads that share a core run one after the other: their rates do not add
// up, all they did in all that time counts.
template <class Work>
double best_rate(Threads& threads, double seconds, const Work& work) {
  double best = 0;
  const Timer total;
  for (int run = 0; run < 3 || total.seconds() < seconds; ++run) {
    std::atomic<int> begun{0};
    std::vector<double> rates(sized(threads.count())), amounts(rates.size());
    const Timer all;
    threads.run(threads.count(), [&](std::int64_t, int thread) {
      ++begun;
      while (begun < threads.count()) std::this_thread::yield();
      const Timer timer;
      const double amount = work(thread);
      rates[sized(thread)] = amount / timer.seconds();
      amounts[sized(thread)] = amount;
    });
    const auto sum = [](const std::vector<double>& values) {
      return std::accumulate(values.begin(), values.end(), 0.0);
    };
    best = std::max(best, threads.count() > default_threads() ? sum(amounts) / all.seconds() : sum(rates));
  }
  return best;
}

}  // namespace

double peak_flops(Threads& threads, double seconds) {
  // A clock that changes has millisecond bursts that no kernel can use: runs of 1 ms on a Xeon give 175 in the middle
  // and 189 at best, runs of 20 ms 175 and 178 GFLOP/s.
  constexpr double kRunSeconds = 0.02;
  const auto compute = REEL_DISPATCH(MultiplyAdd);
  return best_rate(threads, seconds, [&](int) {
    float values[3] = {0.5f, 0.25f, 0.0f};
    double flops = 0;
    const Timer timer;
    while (timer.seconds() < kRunSeconds) flops += compute(500000, values);
    return flops;
  });
}

double bandwidth(Access traffic, std::size_t bytes, Threads& threads, double seconds) {
  const std::size_t floats = std::max<std::size_t>(1024, bytes / sizeof(float) / 1024 * 1024);
  std::vector<Buffer<float>> from, to;
  for (int thread = 0; thread < threads.count(); ++thread) {
    // Half for the source and half for the target, so that both fit where `bytes` fit.
    const std::size_t half = traffic == Access::kCopy ? std::max<std::size_t>(512, floats / 2) : floats;
    from.push_back(Buffer<float>::zeros(half));
    to.push_back(Buffer<float>::zeros(half));
  }
  const auto pass = REEL_DISPATCH(Pass);
  return best_rate(threads, seconds, [&](int thread) {
    const auto t = sized(thread);
    const std::size_t n = from[t].size(), passes = std::max<std::size_t>(1, (4u << 20) / n);
    for (std::size_t i = 0; i < passes; ++i) pass(static_cast<int>(traffic), from[t].data(), to[t].data(), n);
    return static_cast<double>(passes * n * sizeof(float)) * (traffic == Access::kCopy ? 2 : 1);
  });
}

}  // namespace reel::kernels
#endif  // HWY_ONCE
