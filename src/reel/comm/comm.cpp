#include "reel/comm/comm.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "reel/base/buffer.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"

namespace reel::comm {

namespace {

// A waiting rank gives its core to the others, which may be what it waits for: it yields for a moment, then sleeps.
constexpr double kYieldSeconds = 1e-3;
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr double kPollSeconds = 20e-6;

char* bytes_of(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

template <class T>
void sum_in_rank_order(Comm& comm, std::span<T> x, const Where& where) {
  const auto ranks = sized(comm.size());
  Buffer<T> all(ranks * x.size());
  const std::vector<std::int64_t> bytes(ranks, static_cast<std::int64_t>(x.size_bytes()));
  comm.start_all_gather(x.data(), all.data(), bytes, where, Comm::Kind::kAllReduce).wait();
  std::copy_n(all.data(), x.size(), x.data());
  for (std::size_t r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += all[r * x.size() + i];
  }
}

}  // namespace

Handle::Handle(std::unique_ptr<Pending> pending, std::shared_ptr<Shared> shared, Work work)
    : pending_(std::move(pending)), shared_(std::move(shared)), work_(std::move(work)) {
  if (pending_ != nullptr) ++shared_->in_flight;
}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (pending_ != nullptr) wait();
  pending_ = std::move(other.pending_);
  shared_ = std::move(other.shared_);
  work_ = std::move(other.work_);
  return *this;
}

Handle::~Handle() {
  // While an exception flies the buffers go away with messages under way; the process is about to end then.
  if (pending_ != nullptr && std::uncaught_exceptions() == 0) wait();
  if (pending_ != nullptr) finish();
}

void Handle::finish() {
  --shared_->in_flight;
  pending_ = nullptr;
}

bool Handle::done() {
  if (pending_ != nullptr && pending_->poll()) finish();
  return pending_ == nullptr;
}

void Handle::wait() {
  if (shared_ == nullptr) return;
  const Timer timer;
  const double start = shared_->recorder != nullptr ? shared_->recorder->now() : 0;
  while (!done()) {
    const double seconds = timer.seconds();
    if (seconds > shared_->limit) {
      const std::vector<int> peers = pending_->missing();
      finish();
      throw Error(
          fmt::format("{} of group {}{} waited {:.0f} s for rank {}", display_name(work_),
                      std::get<work::Exchange>(work_.what).group,
                      work_.layer < 0 ? "" : fmt::format(", layer {}, {},", work_.layer, phase_name(work_.phase)),
                      seconds, fmt::join(peers, ", ")),
          "that rank is stuck, or the network between them is down; where it is only slow, raise "
          "parallel.wait_seconds");
    }
    if (seconds < kYieldSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
  shared_->exposed += timer.seconds();
  if (shared_->recorder != nullptr) {
    Work wait = work_;
    wait.what = work::Wait{std::get<work::Exchange>(work_.what)};
    shared_->recorder->record(std::move(wait), start, shared_->recorder->now() - start);
  }
  shared_ = nullptr;
}

namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(sized(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

Comm::Comm(const std::shared_ptr<Carrier>& carrier)
    : Comm(carrier, std::make_shared<Shared>(), all_ranks(carrier->size()), carrier->rank(), "world") {}

Comm::Comm(std::shared_ptr<Carrier> carrier, std::shared_ptr<Shared> shared, std::vector<int> members, int rank,
           std::string name)
    : carrier_(std::move(carrier)),
      shared_(std::move(shared)),
      members_(std::make_shared<const std::vector<int>>(std::move(members))),
      rank_(rank),
      name_(std::move(name)),
      first_tags_(shared_->tags.of(name_, *members_, carrier_->most_tag())) {}

std::unique_ptr<Comm> Comm::group(const std::vector<int>& ranks, const std::string& name) const {
  std::vector<int> members;
  std::vector<bool> taken(members_->size(), false);
  int own = -1;
  for (const int rank : ranks) {
    REEL_CHECK(rank >= 0 && rank < size() && !taken[sized(rank)]);
    taken[sized(rank)] = true;
    if (rank == rank_) own = static_cast<int>(members.size());
    members.push_back((*members_)[sized(rank)]);
  }
  REEL_CHECK(own >= 0);
  return std::unique_ptr<Comm>(new Comm(carrier_, shared_, std::move(members), own, name));
}

std::unique_ptr<Comm> Comm::over(std::shared_ptr<Carrier> carrier) const {
  return std::unique_ptr<Comm>(new Comm(std::move(carrier), shared_, *members_, rank_, name_));
}

Handle Comm::exchange(Kind kind, std::vector<Message> outgoing, std::vector<Message> incoming, const Where& where) {
  const std::int64_t bytes = std::accumulate(outgoing.begin(), outgoing.end(), std::int64_t{0},
                                             [](std::int64_t sum, const Message& m) { return sum + m.bytes; });
  Work work{work::Exchange{kind, name_, members_, bytes}, where.layer, where.phase};
  if (kind != Kind::kReceive) shared_->traffic.add(where.layer, where.phase, kind, name_, bytes);  // else the sender's
  if (shared_->recorder != nullptr) shared_->recorder->record(work, shared_->recorder->now(), 0);
  for (std::vector<Message>* messages : {&outgoing, &incoming}) {
    for (Message& m : *messages) {
      REEL_CHECK(m.peer >= 0 && m.peer < size() && m.peer != rank_ && m.tag >= 0 && m.tag < kTags);
      m.tag += first_tags_[sized(m.peer)];
      m.peer = (*members_)[sized(m.peer)];
    }
  }
  return {carrier_->start(outgoing, incoming), shared_, std::move(work)};
}

Handle Comm::start_all_to_all(const void* send, Sizes send_bytes, void* receive, Sizes receive_bytes,
                              const Where& where, Kind kind) {
  const auto ranks = sized(size()), own = sized(rank_);
  REEL_CHECK(send_bytes.size() == ranks && receive_bytes.size() == ranks && send_bytes[own] == receive_bytes[own]);
  std::vector<Message> outgoing, incoming;
  char *from = bytes_of(send), *to = bytes_of(receive);
  std::vector<char*> blocks(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    blocks[r] = from;
    if (from != nullptr) from += send_bytes[r];
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == own) {
      if (to != nullptr && send_bytes[r] > 0) std::memmove(to, blocks[r], sized(send_bytes[r]));
    } else if (receive_bytes[r] > 0) {
      incoming.push_back({static_cast<int>(r), to, receive_bytes[r]});
    }
    if (to != nullptr) to += receive_bytes[r];
  }
  // Everybody begins with the next rank, so that no rank is everybody's first.
  for (std::size_t i = 1; i < ranks; ++i) {
    const std::size_t r = (own + i) % ranks;
    if (send_bytes[r] > 0) outgoing.push_back({static_cast<int>(r), blocks[r], send_bytes[r]});
  }
  return exchange(kind, std::move(outgoing), std::move(incoming), where);
}

Handle Comm::start_all_gather(const void* own, void* all, Sizes bytes, const Where& where, Kind kind) {
  const auto ranks = sized(size()), mine = sized(rank_);
  REEL_CHECK(bytes.size() == ranks);
  std::vector<Message> outgoing, incoming;
  char* to = bytes_of(all);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == mine) {
      if (to != nullptr && bytes[r] > 0) std::memmove(to, own, sized(bytes[r]));
    } else if (bytes[r] > 0) {
      incoming.push_back({static_cast<int>(r), to, bytes[r]});
    }
    if (to != nullptr) to += bytes[r];
  }
  for (std::size_t i = 1; i < ranks && bytes[mine] > 0; ++i) {
    outgoing.push_back({static_cast<int>((mine + i) % ranks), bytes_of(own), bytes[mine]});
  }
  return exchange(kind, std::move(outgoing), std::move(incoming), where);
}

Handle Comm::start_send(const void* data, std::int64_t bytes, int to, int tag, const Where& where) {
  return exchange(Kind::kSend, {{to, bytes_of(data), bytes, tag}}, {}, where);
}

Handle Comm::start_receive(void* data, std::int64_t bytes, int from, int tag, const Where& where) {
  return exchange(Kind::kReceive, {}, {{from, data, bytes, tag}}, where);
}

void Comm::reduce_scatter(const float* x, Sizes counts, float* own, const Where& where) {
  const auto ranks = sized(size()), mine = sized(rank_);
  const auto count = sized(counts[mine]);
  std::vector<std::int64_t> send(ranks), receive(ranks, counts[mine] * std::int64_t{sizeof(float)});
  for (std::size_t r = 0; r < ranks; ++r) send[r] = counts[r] * std::int64_t{sizeof(float)};
  Buffer<float> parts(ranks * count);
  start_all_to_all(x, send, parts.data(), receive, where, Kind::kReduceScatter).wait();
  if (own == nullptr) return;  // a ghost
  std::copy_n(parts.data(), count, own);
  for (std::size_t r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) own[i] += parts[r * count + i];
  }
}

void Comm::all_reduce(std::span<float> x, const Where& where) {
  // Large arrays: everybody sums a part and gives it to the others. 2 (n - 1) / n of the array are sent either way.
  constexpr std::size_t kSmall = 4096;
  if (x.size() <= kSmall) return sum_in_rank_order(*this, x, where);
  const std::int64_t ranks = size(), count = static_cast<std::int64_t>(x.size());
  REEL_CHECK(ranks > 0);
  std::vector<std::int64_t> bytes(sized(ranks)), own_bytes(sized(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) {
    bytes[sized(r)] = (count * (r + 1) / ranks - count * r / ranks) * static_cast<std::int64_t>(sizeof(float));
  }
  const std::size_t first = sized(count * rank_ / ranks);
  const std::size_t mine = sized(count * (rank_ + 1) / ranks) - first;
  std::fill(own_bytes.begin(), own_bytes.end(), static_cast<std::int64_t>(mine * sizeof(float)));
  Buffer<float> parts(mine * sized(ranks));
  start_all_to_all(x.data(), bytes, parts.data(), own_bytes, where, Kind::kAllReduce).wait();
  for (std::size_t i = 0; i < mine; ++i) {
    float sum = parts[i];
    for (std::size_t r = 1; r < sized(ranks); ++r) sum += parts[r * mine + i];
    x[first + i] = sum;
  }
  start_all_gather(x.data() + first, x.data(), bytes, where, Kind::kAllReduce).wait();
}

void Comm::all_reduce(std::span<double> x, const Where& where) { sum_in_rank_order(*this, x, where); }

void Comm::barrier(const Where& where) {
  const char one = 1;
  std::vector<char> all(sized(size()));
  const std::vector<std::int64_t> bytes(sized(size()), 1);
  start_all_gather(&one, all.data(), bytes, where, Kind::kBarrier).wait();
}

void Comm::poll() {
  if (shared_->in_flight == 0 || shared_->since_poll.seconds() < kPollSeconds) return;
  carrier_->progress();
  shared_->since_poll.restart();
}

void poll_while_computing(Threads& threads, Comm& comm) {
  if (comm.size() > 1) threads.set_poll([&comm] { comm.poll(); });
}

}  // namespace reel::comm
