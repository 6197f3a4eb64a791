#include "reel/parallel/zero.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::parallel {

namespace {

constexpr comm::Where kBackward{-1, Phase::kBackward}, kOptimizer{-1, Phase::kOptimizer};
constexpr int kRootTag = 4;

}  // namespace

Zero::Zero(tape::Parameters& parameters, comm::Comm& world, std::size_t bucket_floats)
    : parameters_(parameters), world_(world) {
  // Parameters in the order of the flat array; a bucket reaches to the begin of the next, gaps included.
  std::vector<std::pair<std::size_t, const tape::Parameter*>> trained;
  for (const tape::Parameter& p : parameters.all()) {
    if (p.trained) trained.emplace_back(parameters.offset(p), &p);
  }
  std::sort(trained.begin(), trained.end());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& [offset, parameter] = trained[i];
    if (buckets_.empty() || offset - buckets_.back().begin >= bucket_floats) buckets_.push_back({.begin = offset});
    bucket_of_[parameter] = buckets_.size() - 1;
    ++buckets_.back().parameters;
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::size_t end = i + 1 < buckets_.size() ? buckets_[i + 1].begin : parameters.trained_floats();
    buckets_[i].cut = layout::even_cut(static_cast<std::int64_t>(end - buckets_[i].begin), world.size());
  }
}

std::vector<optim::Range> Zero::owned() const {
  std::vector<optim::Range> ranges;
  for (const Bucket& bucket : buckets_) {
    const auto begin = bucket.begin + sized(bucket.cut.begin(world_.rank()));
    const auto end = bucket.begin + sized(bucket.cut.end(world_.rank()));
    if (end > begin) ranges.push_back({begin, end});
  }
  return ranges;
}

std::vector<std::int64_t> Zero::bytes_of(const Bucket& bucket) const {
  std::vector<std::int64_t> bytes(sized(world_.size()));
  for (int r = 0; r < world_.size(); ++r) {
    bytes[sized(r)] = bucket.cut.size(r) * std::int64_t{sizeof(float)};
  }
  return bytes;
}

void Zero::send(std::size_t index) {
  Bucket& bucket = buckets_[index];
  const auto ranks = sized(world_.size());
  const std::vector<std::int64_t> out = bytes_of(bucket);
  const std::int64_t own = bucket.cut.size(world_.rank());
  const std::vector<std::int64_t> in(ranks, own * std::int64_t{sizeof(float)});
  bucket.sent = true;
  Sending& sending = sending_.emplace_back();
  sending.bucket = index;
  sending.parts = Buffer<float>(ranks * sized(own));
  sending.handle = world_.start_all_to_all(parameters_.gradients().data() + bucket.begin, out, sending.parts.data(), in,
                                           kBackward, comm::Comm::Kind::kReduceScatter);
}

void Zero::add_up(Sending& sending) {
  sending.handle.wait();
  const Bucket& bucket = buckets_[sending.bucket];
  const auto count = sized(bucket.cut.size(world_.rank()));
  float* own = own_part(bucket, parameters_.gradients().data());
  const work::Sweep sum{"sum of gradients", static_cast<std::int64_t>(count), world_.size() - 1, world_.size() + 1};
  run_recorded(world_.shared().recorder, {sum, kBackward.layer, kBackward.phase}, [&] {
    std::copy_n(sending.parts.data(), count, own);
    for (std::size_t r = 1; r < sized(world_.size()); ++r) {
      for (std::size_t i = 0; i < count; ++i) own[i] += sending.parts[r * count + i];
    }
  });
}

void Zero::final(const tape::Parameter& p) {
  const std::size_t index = bucket_of_.at(&p);
  Bucket& bucket = buckets_[index];
  REEL_CHECK(!bucket.sent);
  if (++bucket.final == bucket.parameters) send(index);
  while (!sending_.empty() && sending_.front().handle.done()) {  // memory is free early
    add_up(sending_.front());
    sending_.pop_front();
  }
}

void Zero::finish() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].sent) send(i);
  }
  for (; !sending_.empty(); sending_.pop_front()) add_up(sending_.front());
  for (Bucket& bucket : buckets_) bucket.final = 0, bucket.sent = false;
}

void Zero::gather(std::span<float> x) {
  REEL_CHECK(x.size() == parameters_.trained_floats());
  std::vector<comm::Handle> handles;
  for (const Bucket& bucket : buckets_) {
    handles.push_back(
        world_.start_all_gather(own_part(bucket, x.data()), x.data() + bucket.begin, bytes_of(bucket), kOptimizer));
  }
  for (comm::Handle& handle : handles) handle.wait();
}

Buffer<float> Zero::gather_at_root(std::span<const float> own) {
  const bool root = world_.rank() == 0;
  Buffer<float> all = root ? Buffer<float>::zeros(parameters_.trained_floats()) : Buffer<float>();
  std::vector<comm::Handle> handles;
  const float* at = own.data();
  for (const Bucket& bucket : buckets_) {
    const std::vector<std::int64_t> bytes = bytes_of(bucket);
    const auto count = sized(bucket.cut.size(world_.rank()));
    if (root) {
      std::copy_n(at, count, own_part(bucket, all.data()));
      for (int r = 1; r < world_.size(); ++r) {
        float* to = all.data() + bucket.begin + sized(bucket.cut.begin(r));
        const std::int64_t size = bytes[sized(r)];
        if (size > 0) handles.push_back(world_.start_receive(to, size, r, kRootTag, kOptimizer));
      }
    } else if (count > 0) {
      handles.push_back(world_.start_send(at, bytes[sized(world_.rank())], 0, kRootTag, kOptimizer));
    }
    at += count;
  }
  for (comm::Handle& handle : handles) handle.wait();
  return all;
}

}  // namespace reel::parallel
