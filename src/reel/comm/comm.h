// Processes talking: groups of ranks, whose messages MPI carries, or nobody.
//
//   Session (mpi.h)  ranks that mpirun started
//   make_self        one rank, nobody to talk to
//   make_ghost       acts as rank r of n without any peer: what it would receive is there at once (zeros), what it
//                    would send is metered and recorded
//
// A Comm is a group of ranks: a list of members in the order of their ranks in the group, and tags of its own
// (tags.h). All groups are made of the world by `group`, which talks to nobody and costs next to nothing; they work the
// same for MPI, one rank and ghosts. The world outlives its groups. Any two ranks make the groups that they share in
// the same order, and all ranks of a group call the same operations on it in the same order; how operations of
// different groups follow each other is up to each rank.
//
// Every collective is made of point-to-point messages, so that all of them can be started and polled, a wait knows whom
// it waits for, and sums are taken in rank order: the same bits for the same number of ranks. Blocks lie one after
// another in rank order; sizes are in bytes and may be anything, above 2^31 too (messages are cut into pieces). Sizes
// that both sides of a message expect must agree. Used by one thread: the one that runs the tape.
//
// Nothing moves in the background: a started exchange makes progress only while somebody polls. An exchange hidden
// behind 20 ms of compute is exposed to 100 % without polling, to 0 % with it. poll_while_computing lets every compute
// loop do it.
//
// Every byte that is sent to another rank is metered by kind of exchange, layer, phase and group (traffic.h). A wait
// that takes longer than the limit throws an Error which names operation, layer and peer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reel/base/record.h"
#include "reel/base/threads.h"
#include "reel/comm/carrier.h"
#include "reel/comm/tags.h"
#include "reel/comm/traffic.h"

namespace reel::comm {

// What a message belongs to: for the meter, and for the message of a wait that took too long.
struct Where {
  int layer = -1;  // -1: none
  Phase phase = Phase::kOther;
};

// What all groups of a process share.
struct Shared {
  Traffic traffic;
  Recorder* recorder = nullptr;  // gets every exchange, and every wait for one
  double limit = 300;            // seconds that a wait may take
  double exposed = 0;            // seconds spent waiting
  int in_flight = 0;             // exchanges that are not done
  Timer since_poll;
  Tags tags;
};

// A started exchange. Its buffers must stay until it is done. Dropped before that, it is waited for, unless an
// exception is on its way.
class Handle {
 public:
  Handle() = default;  // done
  Handle(std::unique_ptr<Pending> pending, std::shared_ptr<Shared> shared, Work work);
  Handle(Handle&& other) noexcept = default;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  bool done();  // polls
  void wait();

 private:
  void finish();
  std::unique_ptr<Pending> pending_;
  std::shared_ptr<Shared> shared_;
  Work work_;  // the exchange
};

class Comm {
 public:
  using Kind = work::Exchange::Kind;
  using Sizes = std::span<const std::int64_t>;  // bytes (or floats, where it says so), one a rank

  explicit Comm(const std::shared_ptr<Carrier>& carrier);  // the world
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_->size()); }
  const std::string& name() const { return name_; }              // of the group: "world", "sequence", ...
  const std::vector<int>& members() const { return *members_; }  // ranks of the world, in the order of their ranks here
  Shared& shared() { return *shared_; }

  // The group of `ranks`, which are ranks of this one, this rank among them, none of them twice: ranks[i] is rank i
  // there. Other groups may have the same ranks and another name.
  std::unique_ptr<Comm> group(const std::vector<int>& ranks, const std::string& name) const;

  Handle start_all_to_all(const void* send, Sizes send_bytes, void* receive, Sizes receive_bytes, const Where& where,
                          Kind kind = Kind::kAllToAll);
  Handle start_all_gather(const void* own, void* all, Sizes bytes, const Where& where, Kind kind = Kind::kAllGather);
  // Tags are below kTags; collectives use tag 0, too.
  Handle start_send(const void* data, std::int64_t bytes, int to, int tag, const Where& where);
  Handle start_receive(void* data, std::int64_t bytes, int from, int tag, const Where& where);

  void all_to_all_v(const void* send, Sizes send_bytes, void* receive, Sizes receive_bytes, const Where& where = {}) {
    start_all_to_all(send, send_bytes, receive, receive_bytes, where).wait();
  }
  void all_gather_v(const void* own, void* all, Sizes bytes, const Where& where = {}) {
    start_all_gather(own, all, bytes, where).wait();
  }
  // own = the sum over the ranks of block rank() of x; counts in floats. `own` may be that block.
  void reduce_scatter(const float* x, Sizes counts, float* own, const Where& where = {});
  // x = the sum over the ranks.
  void all_reduce(std::span<float> x, const Where& where = {});
  void all_reduce(std::span<double> x, const Where& where = {});
  void barrier(const Where& where = {});

  // Lets messages make progress, if there are any. Cheap: at most once in 20 us it does something.
  void poll();

  // The same group, whose messages something else carries.
  std::unique_ptr<Comm> over(std::shared_ptr<Carrier> carrier) const;
  const std::shared_ptr<Carrier>& carrier() const { return carrier_; }

 private:
  Comm(std::shared_ptr<Carrier> carrier, std::shared_ptr<Shared> shared, std::vector<int> members, int rank,
       std::string name);
  Handle exchange(Kind kind, std::vector<Message> outgoing, std::vector<Message> incoming, const Where& where);

  std::shared_ptr<Carrier> carrier_;
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<const std::vector<int>> members_;  // shared with the records of what the group sends
  int rank_;
  std::string name_;
  std::vector<int> first_tags_;  // one a member
};

// From now on the compute loops of `threads` poll `comm`, if it has ranks to talk to; `comm` outlives them.
void poll_while_computing(Threads& threads, Comm& comm);

std::unique_ptr<Comm> make_self();
std::unique_ptr<Comm> make_ghost(int rank, int size);

}  // namespace reel::comm
