#include "reel/sparsity/break_even.h"

#include <algorithm>
#include <bit>
#include <filesystem>

#include "reel/attention/random_problem.h"
#include "reel/attention/select.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/files/csv.h"
#include "reel/kernels/cpu.h"

namespace reel::sparsity {

namespace {

constexpr std::int64_t kRank = 16, kSamples = 16, kGroup = 64;
constexpr int kRuns = 2;  // the better counts

struct Problem : attention::RandomProblem {
  Buffer<float> low_q, low_k;

  Problem(std::int64_t heads, std::int64_t tokens, std::int64_t head_dim) : RandomProblem(heads, tokens, head_dim) {
    low_q = Buffer<float>(sized(heads * tokens / kGroup * kSamples * kRank));
    low_k = Buffer<float>(sized(heads * tokens * kRank));
    Random(5).fill_normal(low_q);
    Random(6).fill_normal(low_k);
  }
};

double dense_seconds(Problem& p, Threads& threads) {
  return best_seconds(
      [&] {
        attention::forward(p.input(), {}, p.result(), threads);
        attention::backward(p.input(), {}, p.gradients(), threads);
      },
      kRuns, 0);
}

struct Times {
  double choose, attend;
};

Times sparse_seconds(Problem& p, double share, int granularity, Threads& threads) {
  attention::SelectInput in;
  in.heads = p.shape.heads, in.keys = p.shape.keys, in.rank = kRank, in.samples = kSamples;
  in.group_starts = lists::uniform_groups(p.shape.queries, kGroup);
  in.q = attention::head_major<const float>(p.low_q.data(), in.keys / kGroup * kSamples, in.heads, kRank);
  in.k = attention::head_major<const float>(p.low_k.data(), in.keys, in.heads, kRank);
  in.granularity = granularity;
  const std::int64_t entries = in.keys / granularity;
  in.keep = {static_cast<std::int64_t>(share * static_cast<double>(entries))};
  lists::KeyLists lists;
  const double choose = best_seconds([&] { lists = attention::select(in, threads); }, kRuns, 0);
  const lists::ListsView keys = lists;
  const double attend = best_seconds(
      [&] {
        attention::forward(p.input(), keys, p.result(), threads);
        attention::backward(p.input(), keys, p.gradients(), threads);
      },
      kRuns, 0);
  return {choose, attend};
}

}  // namespace

BreakEven measure_break_even(std::int64_t tokens, std::int64_t head_dim, Threads& threads) {
  REEL_CHECK(tokens % kGroup == 0);
  Problem p(threads.count(), tokens, head_dim);
  const double dense = dense_seconds(p, threads);
  // The time of a sparse head is a line in the share of its keys.
  const Times few = sparse_seconds(p, 0.125, 1, threads), many = sparse_seconds(p, 0.5, 1, threads);
  const Times tiles = sparse_seconds(p, 0.125, lists::kTileKeys, threads);
  const double slope = (many.choose + many.attend - few.choose - few.attend) / (0.5 - 0.125);
  BreakEven result;
  const double share = 0.125 + (dense - few.choose - few.attend) / std::max(slope, 1e-12);
  result.share = static_cast<float>(std::clamp(share, 0.01, 0.95));
  result.tile_cost = static_cast<float>(std::clamp(tiles.attend / few.attend, 0.1, 10.0));
  return result;
}

BreakEven break_even_for(const std::string& cache, std::int64_t tokens, std::int64_t head_dim, Threads& threads) {
  const auto length = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(tokens, 1024, 8192))));
  CsvWriter table({"instructions", "tokens", "head_dim", "share", "tile_cost"});
  if (std::filesystem::exists(cache)) {
    try {
      const Csv known = Csv::load(cache);
      for (std::size_t row = 0; row < known.rows(); ++row) {
        const BreakEven found{static_cast<float>(known.number(row, "share")),
                              static_cast<float>(known.number(row, "tile_cost"))};
        if (known.text(row, "instructions") == kernels::target() && known.integer(row, "tokens") == length &&
            known.integer(row, "head_dim") == head_dim) {
          return found;
        }
        table.add(known.text(row, "instructions"), known.integer(row, "tokens"), known.integer(row, "head_dim"),
                  found.share, found.tile_cost);
      }
    } catch (const Error&) {  // damaged: begun anew
      table = CsvWriter({"instructions", "tokens", "head_dim", "share", "tile_cost"});
    }
  }
  const BreakEven measured = measure_break_even(length, head_dim, threads);
  table.add(kernels::target(), length, head_dim, measured.share, measured.tile_cost);
  try {
    std::filesystem::create_directories(std::filesystem::path(cache).parent_path());
    table.write(cache);
  } catch (const std::exception&) {  // the next run measures again
  }
  return measured;
}

BreakEven break_even_of(const SparsityConfig& config, const BreakEven& otherwise) {
  return config.break_even > 0 ? BreakEven{.share = static_cast<float>(config.break_even)} : otherwise;
}

BreakEven break_even_of(const SparsityConfig& config, const std::string& cache, std::int64_t tokens,
                        std::int64_t head_dim, Threads& threads) {
  BreakEven found;
  if (config.mode == "dynamic" && config.break_even == 0 && config.layer_keys.empty()) {
    found = break_even_for(cache, tokens, head_dim, threads);
    if (config.keys == 0) found.share /= static_cast<float>(config.worth);
  }
  return break_even_of(config, found);
}

}  // namespace reel::sparsity
