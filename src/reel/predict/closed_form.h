// The low-rank form of q k^T that follows from the second moments of q and k, without any training.
//
// With C_q = L_q L_q^T, C_k = L_k L_k^T (plus a small ridge) and L_q^T L_k = U E V^T, the best rank-r approximation of
// the scores, on average over queries and keys, is (q P_q)(k P_k)^T with P_q = L_q^-T U_r E_r^(1/2) and
// P_k = L_k^-T V_r E_r^(1/2). The moments of keys are taken about their mean: what all keys share adds the same to
// every score of a query and changes no softmax. The singular values E tell which rank a head needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reel::predict {

// Second moments of rows of `dim` numbers, averaged over calls with decay.
struct Moments {
  std::int64_t dim = 0;
  std::vector<double> product;  // [dim][dim], mean of x x^T
  std::vector<double> mean;     // [dim]
  bool empty() const { return product.empty(); }
  void mix(const Moments& fresh, double decay);  // this = decay * this + (1 - decay) * fresh; fresh itself at first
};

struct LowRank {
  std::int64_t dim = 0, rank = 0;
  std::vector<float> q, k;       // [dim][rank]
  std::vector<double> spectrum;  // all `dim` singular values, descending
};

// The leading `rank` directions (`dim` of them where that is less).
LowRank closed_form(const Moments& q, const Moments& k, std::int64_t rank);

// The smallest rank of 8, 16, 24, 32, ... up to `most` that keeps `share` of the squared singular values.
std::int64_t rank_for(std::span<const double> spectrum, double share, std::int64_t most);

}  // namespace reel::predict
