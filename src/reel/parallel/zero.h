// Data parallel with a sharded optimizer (ZeRO stage 1, arXiv 1910.02054): every rank has all weights and all
// gradients; the optimizer's state, and the update, are cut over the ranks.
//
// The flat array of gradients is cut into buckets of whole parameters. As soon as the gradients of a bucket are final
// in backward, its parts set off to the ranks that own them (a reduce-scatter, polled from compute loops); each rank
// adds up what it gets in rank order, updates the weights it owns, and everybody gathers the weights. Each bucket is
// cut evenly over the ranks, so all links are busy all the time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "reel/base/sized.h"
#include "reel/comm/comm.h"
#include "reel/layout/cut.h"
#include "reel/optim/optimizer.h"
#include "reel/tape/tensor.h"

namespace reel::parallel {

class Zero {
 public:
  // Both outlive it. Buckets of at least `bucket_floats`, the last one may be smaller.
  Zero(tape::Parameters& parameters, comm::Comm& world, std::size_t bucket_floats = std::size_t{1} << 20);

  // What this rank owns, ascending.
  std::vector<optim::Range> owned() const;

  // During the last backward of a step: the gradient of p is final. All ranks call it in the same order.
  void final(const tape::Parameter& p);
  // After it: sends what is left, waits. Then the gradients that this rank owns are the sums over the ranks. Gradients
  // of parameters that no operation touched must be zero by then.
  void finish();

  // x is laid out as the trained parameters; what each rank owns of it comes to all others.
  void gather(std::span<float> x);
  // `own` is what this rank owns, one range after another, of an array like that: the array on rank 0, nothing
  // elsewhere.
  Buffer<float> gather_at_root(std::span<const float> own);

 private:
  struct Bucket {
    std::size_t begin = 0, parameters = 0, final = 0;
    layout::Cut cut;  // counted from begin
    bool sent = false;
  };
  struct Sending {
    std::size_t bucket;
    Buffer<float> parts;  // [ranks][own part]
    comm::Handle handle;  // ends before `parts` does
  };
  void send(std::size_t bucket);
  void add_up(Sending& sending);
  float* own_part(const Bucket& bucket, float* flat) const {
    return flat + bucket.begin + sized(bucket.cut.begin(world_.rank()));
  }
  std::vector<std::int64_t> bytes_of(const Bucket& bucket) const;

  tape::Parameters& parameters_;
  comm::Comm& world_;
  std::vector<Bucket> buckets_;
  std::map<const tape::Parameter*, std::size_t> bucket_of_;
  std::deque<Sending> sending_;
};

}  // namespace reel::parallel
