// Which of a head's numbers the predictor `hidden` begins with.
//
// Those are taken that change the scores of a query most from key to key. What a number adds to the variance of the
// scores is the mean of q^2 times the variance of k; for a pair, which is turned as a whole and taken or left as one,
// the same with 2 x 2 matrices. (Mean of |q| |k| instead: recall mostly within 0.02 of it, above or below.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reel/predict/predictor.h"

namespace reel::predict {

// How many heads are turned: the first ones.
std::int64_t turned_heads(const kernels::RopeAngles* angles, const ModelHeads& shape);

// What the numbers of a clip's q and k count, q and k [tokens][heads][head_dim]: [heads][head_dim], with the pairs of
// heads that are turned in the first half of their row.
std::vector<float> energies(const float* q, const float* k, std::int64_t tokens, const kernels::RopeAngles* angles,
                            const ModelHeads& shape);

// [heads][rank], in [0, head_dim). Heads that are turned get whole pairs, the two numbers next to each other.
std::vector<std::int32_t> pick(std::span<const float> energies, const kernels::RopeAngles* angles,
                               const ModelHeads& shape, std::int64_t rank);

// Later in training other pairs may count. Exchanges pairs of heads that are turned for others that count half as much
// again; the places in `picked` that are new. Numbers of other heads stay: from any of them all can be learnt.
std::vector<std::size_t> pick_again(std::span<const float> energies, const kernels::RopeAngles* angles,
                                    const ModelHeads& shape, std::vector<std::int32_t>& picked);

}  // namespace reel::predict
