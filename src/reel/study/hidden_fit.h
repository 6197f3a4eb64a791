// The predictor `hidden` for tensors from elsewhere: what the hidden states of a layer can say about its scores,
// fitted to its own q and k by least squares. No weights of the model are needed.
//
// A head gets `rank` numbers a token on each side. With rope angles they stand for the pairs of q and k that change the
// scores most: the pairs are turned back, fitted as linear maps of the hidden states, and turned again, so that the
// maps know positions. Without angles they stand for the leading directions of the closed form (closed_form.h), and a
// model with RoPE is predicted badly, as it must be: a map that does not see positions cannot follow them.
//
// The fit is to some of the tokens (four times the width, at least 8,192), and is judged on tokens of the same clip.
#pragma once

#include <cstdint>
#include <vector>

#include "reel/base/buffer.h"
#include "reel/base/threads.h"
#include "reel/predict/cholesky.h"
#include "reel/study/qk_file.h"

namespace reel::study {

struct LowPair {
  std::int64_t rank = 0;
  Buffer<float> q, k;  // [tokens][rank]
};

class HiddenFit {
 public:
  // [tokens][width], and [tokens][head_dim / 2] or empty.
  HiddenFit(Buffer<float> hidden, std::int64_t tokens, Buffer<float> rope_cos, Buffer<float> rope_sin,
            Threads& threads);

  // Numbers of one head; q and k are [tokens][head_dim]. Ranks are even with rope, and at most head_dim.
  LowPair fit(const float* q, const float* k, std::int64_t head_dim, std::int64_t rank, Threads& threads) const;

 private:
  Buffer<float> map(const Buffer<float>& targets, std::int64_t numbers, Threads& threads) const;
  void turn(float* rows, const std::vector<std::int32_t>& pairs, bool back) const;

  Buffer<float> hidden_, cos_, sin_;
  std::int64_t tokens_, width_;
  std::vector<std::int32_t> fitted_;  // tokens
  std::vector<double> mean_;          // of their hidden states
  predict::Square factor_;            // of the second moments about it
};

constexpr std::int64_t kHiddenRank = 32;  // where none is asked for

HiddenFit fit_hidden(const QkFile& file, const lists::TokenOrder& order, Threads& threads);

}  // namespace reel::study
