#include "reel/sim/placement.h"

#include <algorithm>

#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::sim {

Placement::Placement(const Job& job, const cost::Cluster& cluster)
    : tensor_(job.parallel.tensor),
      context_(job.parallel.context),
      data_(job.parallel.data),
      pipeline_(job.parallel.pipeline),
      expert_(job.parallel.expert),
      expert_stride_(job.whole_experts() ? 1 : tensor_),
      devices_(job.devices()),
      per_node_(cluster.fabric.per_node) {
  const bool dit = job.model.kind == "dit";
  const bool by_ring = dit ? job.parallel.plan.ring > 1 : context_ > 1 && job.parallel.context_kind == "ring";
  ulysses_ = dit ? job.parallel.plan.ulysses * job.parallel.plan.dsp : by_ring ? 1 : context_;
  ring_ = context_ / ulysses_;
  contexts_ = ulysses_ > 1;
  rings_ = by_ring;
  moe_ = job.model.moe();
  embedding_ = !dit && job.model.tied && pipeline_ > 1;
  if (!job.slow_links.empty()) {
    slow_.assign(sized(devices_), 1);
    for (std::size_t i = 0; i < job.slow_links.size(); ++i) slow_[sized(job.slow_links[i])] = job.slow_link_factors[i];
  }
}

Coordinates Placement::coordinates(std::int64_t rank) const {
  return {rank / (tensor_ * context_ * data_), rank / (tensor_ * context_) % data_, rank / tensor_ % context_,
          rank % tensor_};
}

std::int64_t Placement::rank(const Coordinates& at) const {
  return ((at.stage * data_ + at.copy) * context_ + at.piece) * tensor_ + at.part;
}

Spread Placement::place(const std::vector<std::int64_t>& ranks) const {
  Spread placement;
  placement.devices = static_cast<std::int64_t>(ranks.size());
  std::int64_t least = placement.devices, most = 0, count = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {  // ascending, so nodes come in runs
    ++count;
    if (i + 1 == ranks.size() || ranks[i + 1] / per_node_ != ranks[i] / per_node_) {
      least = std::min(least, count), most = std::max(most, count);
      count = 0;
    }
  }
  placement.per_node = most == least ? most : cost::even_share(placement.devices, least);
  if (placement.per_node < placement.devices)
    placement.sharing = std::max<std::int64_t>(1, std::min(per_node_, devices_) / placement.per_node);
  for (const std::int64_t rank : ranks) {
    if (!slow_.empty()) placement.slow = std::max(placement.slow, slow_[sized(rank)]);
  }
  return placement;
}

std::int32_t Placement::variant(Slot slot, const Spread& placement) {
  auto& known = spreads_[slot];
  const auto found = std::find(known.begin(), known.end(), placement);
  if (found != known.end()) return static_cast<std::int32_t>(found - known.begin());
  known.push_back(placement);
  return static_cast<std::int32_t>(known.size()) - 1;
}

void Placement::add_group(Workload& w, Slot slot, const std::vector<std::int64_t>& ranks) {
  const auto id = static_cast<std::int32_t>(w.groups.size());
  w.groups.push_back({variant(slot, place(ranks)), static_cast<std::int32_t>(w.members.size()),
                      static_cast<std::int32_t>(ranks.size()), false});
  for (const std::int64_t rank : ranks) {
    w.members.push_back(static_cast<std::int32_t>(rank));
    w.group_of[sized(rank * kSlots + slot)] = id;
  }
}

// to[rank]: whom it sends to; -1: nobody.
void Placement::add_channels(Workload& w, Slot out, Slot in, const std::vector<std::int64_t>& to) {
  std::vector<std::int64_t> leaving(sized((devices_ + per_node_ - 1) / per_node_), 0);
  const auto crosses = [&](std::int64_t a, std::int64_t b) { return a / per_node_ != b / per_node_; };
  for (std::int64_t r = 0; r < devices_; ++r) {
    const std::int64_t peer = to[sized(r)];
    if (peer >= 0 && crosses(r, peer)) ++leaving[sized(r / per_node_)];
  }
  for (std::int64_t r = 0; r < devices_; ++r) {
    const std::int64_t peer = to[sized(r)];
    if (peer < 0) continue;
    Spread placement{2, 2, 1, 1};
    if (crosses(r, peer)) placement.per_node = 1, placement.sharing = leaving[sized(r / per_node_)];
    if (!slow_.empty()) placement.slow = std::max(slow_[sized(r)], slow_[sized(peer)]);
    const auto id = static_cast<std::int32_t>(w.groups.size());
    w.groups.push_back({variant(out, placement), static_cast<std::int32_t>(w.members.size()), 2, true});
    w.members.push_back(static_cast<std::int32_t>(r));
    w.members.push_back(static_cast<std::int32_t>(peer));
    w.group_of[sized(r * kSlots + out)] = id;
    w.group_of[sized(peer * kSlots + in)] = id;
  }
  spreads_[in] = spreads_[out];
}

void Placement::add_groups(Workload& w) {
  w.slots = kSlots;
  w.group_of.assign(sized(devices_ * kSlots), -1);
  w.members.reserve(sized(devices_) * 8);
  std::vector<std::int64_t> ranks;
  // member(r, i): member i of the group of rank r.
  const auto groups = [&](Slot slot, std::int64_t size, const auto& member) {
    for (std::int64_t r = 0; r < devices_; ++r) {
      if (member(r, 0) != r) continue;
      ranks.clear();
      for (std::int64_t i = 0; i < size; ++i) ranks.push_back(member(r, i));
      add_group(w, slot, ranks);
    }
  };
  const std::int64_t wide = data_ * context_;
  if (tensor_ > 1)
    groups(kTensorSlot, tensor_, [&](std::int64_t r, std::int64_t i) { return r / tensor_ * tensor_ + i; });
  if (contexts_) {
    const std::int64_t span = tensor_ * ulysses_;
    groups(kContextSlot, ulysses_,
           [&](std::int64_t r, std::int64_t i) { return r / span * span + r % tensor_ + i * tensor_; });
  }
  if (wide > 1) {
    const std::int64_t span = tensor_ * wide;
    groups(kDataSlot, wide,
           [&](std::int64_t r, std::int64_t i) { return r / span * span + r % tensor_ + i * tensor_; });
  }
  if (expert_ > 1) {
    const std::int64_t span = expert_stride_ * expert_;
    groups(kExpertSlot, expert_,
           [&](std::int64_t r, std::int64_t i) { return r / span * span + r % expert_stride_ + i * expert_stride_; });
  }
  if (moe_ && tensor_ * wide / (expert_stride_ * expert_) > 1) {
    const std::int64_t span = tensor_ * wide, stride = expert_stride_ * expert_;
    groups(kExpertDataSlot, span / stride,
           [&](std::int64_t r, std::int64_t i) { return r / span * span + r % stride + i * stride; });
  }
  const std::int64_t stage = tensor_ * wide;
  if (embedding_) {
    for (std::int64_t r = 0; r < stage; ++r) {
      ranks = {r, r + (pipeline_ - 1) * stage};
      add_group(w, kEmbeddingSlot, ranks);
    }
  }
  std::vector<std::int64_t> to(sized(devices_));
  if (pipeline_ > 1) {  // around: interleaved chunks go from the last stage to the first
    for (std::int64_t r = 0; r < devices_; ++r) to[sized(r)] = (r + stage) % devices_;
    add_channels(w, kForwardOut, kForwardIn, to);
    for (std::int64_t r = 0; r < devices_; ++r) to[sized(r)] = (r + devices_ - stage) % devices_;
    add_channels(w, kBackwardOut, kBackwardIn, to);
  }
  if (rings_) {
    for (std::int64_t r = 0; r < devices_; ++r) {
      Coordinates c = coordinates(r);
      c.piece = (c.piece + ulysses_) % context_;
      to[sized(r)] = rank(c);
    }
    add_channels(w, kRingOut, kRingIn, to);
  }
}

}  // namespace reel::sim
