// What a sparsity controller asks other ranks for, over the groups of a plan (sparsity/ranks.h).
#pragma once

#include "reel/parallel/shard.h"
#include "reel/parallel/team.h"
#include "reel/predict/ranks.h"
#include "reel/sparsity/pass.h"

namespace reel::model {

class SparseRanks final : public predict::Ranks {
 public:
  // q is [clips here, tokens here, heads, head_dim]; `tokens` is cut over the sequence group. In training the
  // data-parallel groups decide together. All of them outlive it.
  SparseRanks(tape::Tape& tape, parallel::Team& team, const tape::Tensor& q, const layout::Cut& tokens,
              const sparsity::Pass& pass);

  Buffer<float> gather(const Buffer<float>& own, std::span<const std::int64_t> cut, std::int64_t outer,
                       std::int64_t inner) override;
  void largest(std::span<double> values) override;
  Heads by_heads(const float* x) override;
  std::vector<double> share(const std::vector<double>& own, std::int64_t each) override;
  Buffer<float> first_clip(const float* x, std::int64_t width, std::span<const std::int32_t> wanted) override;
  lists::KeyLists all_clips(const lists::KeyLists& own) override;

 private:
  // Those that decide together. The first group is the first ranks of the world.
  comm::Comm& together() { return training_ ? team_.world() : team_.sequence(); }

  tape::Tape& tape_;
  parallel::Team& team_;
  tape::Shape shape_;
  const layout::Cut& tokens_;
  layout::Cut heads_;  // over the sequence group
  bool training_;
};

}  // namespace reel::model
