#include "reel/model/sparse_ranks.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/parallel/gather_lists.h"

namespace reel::model {

using layout::Cut;

namespace {

// Blocks of cut.size(r) * bytes from the first ranks of a group, nothing from the others.
std::vector<std::int64_t> bytes_of(const comm::Comm& group, const Cut& cut, std::int64_t bytes) {
  std::vector<std::int64_t> all(sized(group.size()), 0);
  for (int r = 0; r < cut.parts(); ++r) all[sized(r)] = cut.size(r) * bytes;
  return all;
}

}  // namespace

SparseRanks::SparseRanks(tape::Tape& tape, parallel::Team& team, const tape::Tensor& q, const Cut& tokens,
                         const sparsity::Pass& pass)
    : tape_(tape),
      team_(team),
      shape_(q.shape()),
      tokens_(tokens),
      heads_(layout::even_cut(q.dim(2), team.sequence().size())),
      training_(pass.training()) {
  token_starts = tokens.starts;
  rank = team.sequence().rank();
  clip_starts = training_ ? pass.clips.starts : std::vector<std::int64_t>{0, q.dim(0)};
  group = training_ ? team.data().rank() : 0;
}

Buffer<float> SparseRanks::gather(const Buffer<float>& own, std::span<const std::int64_t> cut, std::int64_t outer,
                                  std::int64_t inner) {
  const Cut axis{{cut.begin(), cut.end()}};
  const std::vector<std::int64_t> bytes = bytes_of(team_.sequence(), axis, outer * inner * std::int64_t{sizeof(float)});
  Buffer<float> arrived(sized(outer * axis.extent() * inner)), all(arrived.size());
  team_.sequence().all_gather_v(own.data(), arrived.data(), bytes, parallel::where(tape_));
  const float* from = arrived.data();
  for (int r = 0; r < axis.parts(); ++r) {
    const std::int64_t run = axis.size(r) * inner;
    for (std::int64_t i = 0; i < outer; ++i, from += run) {
      std::copy_n(from, run, all.data() + (i * axis.extent() + axis.begin(r)) * inner);
    }
  }
  return all;
}

void SparseRanks::largest(std::span<double> values) {
  const std::size_t ranks = sized(together().size());
  std::vector<double> all(ranks * values.size());
  const std::vector<std::int64_t> bytes(ranks, static_cast<std::int64_t>(values.size_bytes()));
  together().all_gather_v(values.data(), all.data(), bytes, parallel::where(tape_));
  for (std::size_t i = 0; i < all.size(); ++i) {
    values[i % values.size()] = std::max(values[i % values.size()], all[i]);
  }
}

SparseRanks::Heads SparseRanks::by_heads(const float* x) {
  if (training_ && group != 0) return {};
  tape::Shape shape = shape_;
  if (training_) shape[0] = 1;
  const std::size_t size = sized(tape::elements(shape));
  const tape::Tensor own = tape_.copy_in(shape, {x, size});
  return {heads_.begin(rank), heads_.size(rank),
          parallel::switch_shard(tape_, team_.sequence(), own, 1, tokens_, 2, heads_)};
}

std::vector<double> SparseRanks::share(const std::vector<double>& own, std::int64_t each) {
  std::vector<double> all(sized(heads_.extent() * each));
  together().all_gather_v(own.data(), all.data(), bytes_of(together(), heads_, each * std::int64_t{sizeof(double)}),
                          parallel::where(tape_));
  return all;
}

Buffer<float> SparseRanks::first_clip(const float* x, std::int64_t width, std::span<const std::int32_t> wanted) {
  REEL_CHECK(training_);
  Cut rows;  // of what is wanted, over the ranks of the first group
  rows.starts.clear();
  for (const std::int64_t start : token_starts) {
    rows.starts.push_back(std::lower_bound(wanted.begin(), wanted.end(), start) - wanted.begin());
  }
  Buffer<float> own, all(wanted.size() * sized(width));
  if (group == 0) {
    own = Buffer<float>(sized(rows.size(rank) * width));
    for (std::int64_t i = 0; i < rows.size(rank); ++i) {
      const std::int64_t row = wanted[sized(rows.begin(rank) + i)] - tokens_.begin(rank);
      std::copy_n(x + row * width, width, own.data() + i * width);
    }
  }
  team_.world().all_gather_v(own.data(), all.data(), bytes_of(team_.world(), rows, width * std::int64_t{sizeof(float)}),
                             parallel::where(tape_));
  return all;
}

lists::KeyLists SparseRanks::all_clips(const lists::KeyLists& own) {
  return training_ ? parallel::gather_items(team_.data(), own, parallel::where(tape_)) : own;
}

}  // namespace reel::model
