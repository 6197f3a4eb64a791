#include "reel/predict/hidden_pick.h"

#include <algorithm>

#include "reel/base/buffer.h"
#include "reel/base/sized.h"

namespace reel::predict {

namespace {

constexpr std::int64_t kLookedTokens = 512;  // tell variances well enough
constexpr double kMargin = 1.5;              // less is no gain over what was learnt for the pair that is there

// Tokens of the first clip that are looked at, [tokens][heads][head_dim].
struct Looked {
  std::int64_t tokens = 0;
  Buffer<float> q, k;
};

Looked look(const float* q, const float* k, std::int64_t all, std::int64_t width) {
  const std::int64_t step = std::max<std::int64_t>(1, all / kLookedTokens), tokens = (all + step - 1) / step;
  const auto rows = [&](const float* x) {
    Buffer<float> some(sized(tokens * width));
    for (std::int64_t i = 0; i < tokens; ++i) std::copy_n(x + i * step * width, width, some.data() + i * width);
    return some;
  };
  return {tokens, rows(q), rows(k)};
}

double energy(const Looked& looked, const ModelHeads& shape, std::int64_t head, std::span<const std::int32_t> numbers) {
  const std::int64_t width = shape.heads * shape.head_dim;
  double qq[2][2] = {}, kk[2][2] = {}, mean[2] = {};
  const auto count = static_cast<double>(looked.tokens);
  for (std::int64_t t = 0; t < looked.tokens; ++t) {
    const float* q = looked.q.data() + t * width + head * shape.head_dim;
    const float* k = looked.k.data() + t * width + head * shape.head_dim;
    for (std::size_t a = 0; a < numbers.size(); ++a) {
      mean[a] += static_cast<double>(k[numbers[a]]);
      for (std::size_t b = 0; b < numbers.size(); ++b) {
        qq[a][b] += static_cast<double>(q[numbers[a]]) * static_cast<double>(q[numbers[b]]);
        kk[a][b] += static_cast<double>(k[numbers[a]]) * static_cast<double>(k[numbers[b]]);
      }
    }
  }
  double sum = 0;
  for (std::size_t a = 0; a < numbers.size(); ++a) {
    for (std::size_t b = 0; b < numbers.size(); ++b) {
      sum += qq[a][b] / count * (kk[a][b] / count - mean[a] / count * (mean[b] / count));
    }
  }
  return sum;
}

// The numbers of a head that its entry i stands for.
std::vector<std::int32_t> numbers_of(std::int64_t i, bool turned, const kernels::RopeAngles* angles,
                                     const ModelHeads& shape) {
  const auto at = static_cast<std::int32_t>(i), half = static_cast<std::int32_t>(shape.head_dim / 2);
  if (!turned) return {at};
  if (angles->pairing == kernels::Pairing::kHalves) return {at, at + half};
  return {2 * at, 2 * at + 1};
}

// A pair or a single number.
struct Candidate {
  std::vector<std::int32_t> numbers;
  float energy = 0;
};

// The candidates of one head; those that count most come first.
std::vector<Candidate> candidates(std::span<const float> energies, const kernels::RopeAngles* angles,
                                  const ModelHeads& shape, std::int64_t head) {
  const bool turned = head < turned_heads(angles, shape);
  std::vector<Candidate> all;
  for (std::int64_t i = 0; i < shape.head_dim / (turned ? 2 : 1); ++i) {
    all.push_back({numbers_of(i, turned, angles, shape), energies[sized(head * shape.head_dim + i)]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.energy > b.energy; });
  return all;
}

}  // namespace

std::int64_t turned_heads(const kernels::RopeAngles* angles, const ModelHeads& shape) {
  if (angles == nullptr) return 0;
  return angles->heads < 0 ? shape.heads : std::min(angles->heads, shape.heads);
}

std::vector<float> energies(const float* q, const float* k, std::int64_t tokens, const kernels::RopeAngles* angles,
                            const ModelHeads& shape) {
  const Looked looked = look(q, k, tokens, shape.heads * shape.head_dim);
  std::vector<float> all(sized(shape.heads * shape.head_dim), 0.0f);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const bool turned = h < turned_heads(angles, shape);
    for (std::int64_t i = 0; i < shape.head_dim / (turned ? 2 : 1); ++i) {
      all[sized(h * shape.head_dim + i)] =
          static_cast<float>(energy(looked, shape, h, numbers_of(i, turned, angles, shape)));
    }
  }
  return all;
}

std::vector<std::int32_t> pick(std::span<const float> energies, const kernels::RopeAngles* angles,
                               const ModelHeads& shape, std::int64_t rank) {
  std::vector<std::int32_t> picked;
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const std::vector<Candidate> best = candidates(energies, angles, shape, h);
    for (std::size_t i = 0; picked.size() < sized((h + 1) * rank); ++i) {
      picked.insert(picked.end(), best[i].numbers.begin(), best[i].numbers.end());
    }
  }
  return picked;
}

std::vector<std::size_t> pick_again(std::span<const float> energies, const kernels::RopeAngles* angles,
                                    const ModelHeads& shape, std::vector<std::int32_t>& picked) {
  const std::size_t rank = picked.size() / sized(shape.heads);
  std::vector<std::size_t> changed;
  for (std::int64_t h = 0; h < turned_heads(angles, shape); ++h) {
    const std::vector<Candidate> best = candidates(energies, angles, shape, h);
    const auto place_of = [&](const Candidate& pair) {  // in picked; its end where the pair is not there
      const auto first = picked.begin() + h * static_cast<std::ptrdiff_t>(rank);
      const auto end = first + static_cast<std::ptrdiff_t>(rank);
      const auto at = std::find(first, end, pair.numbers[0]);
      return at == end ? picked.size() : sized(at - picked.begin());
    };
    // The strongest that is left out against the weakest that is in, and so on inwards.
    auto weakest = best.rbegin();
    for (const Candidate& pair : best) {
      if (place_of(pair) != picked.size()) continue;
      while (weakest != best.rend() && place_of(*weakest) == picked.size()) ++weakest;
      if (weakest == best.rend() || !(pair.energy > kMargin * weakest->energy)) break;
      const std::size_t at = place_of(*weakest);
      std::copy(pair.numbers.begin(), pair.numbers.end(), picked.begin() + static_cast<std::ptrdiff_t>(at));
      changed.push_back(at);
      changed.push_back(at + 1);
    }
  }
  return changed;
}

}  // namespace reel::predict
