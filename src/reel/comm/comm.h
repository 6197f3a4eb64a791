// Processes talking: one interface, three kinds.
//
//   Mpi    ranks started by mpirun (mpi.h)
//   Self   one rank, nobody to talk to
//   Ghost  acts as rank r of n without any peer: what it would receive is there at once (zeros), what it would send is
//          metered and recorded
//
// A Comm is a group of ranks. Every collective is made of point-to-point messages, so that all of them can be started
// and polled, a wait knows whom it waits for, and sums are taken in rank order: the same bits for the same number of
// ranks. All ranks of a group call the same operations in the same order. Blocks lie one after another in rank order;
// sizes are in bytes and may be anything, above 2^31 too (messages are cut into pieces). Sizes that both sides of a
// message expect must agree. Used by one thread: the one that runs the tape.
//
// Nothing moves in the background: a started exchange goes on only while somebody polls. An exchange hidden behind
// 20 ms of compute is exposed to 100 % without polling, to 0 % with it. poll_while_computing lets every compute loop do
// it.
//
// Every byte that is sent to another rank is metered by operation, layer, phase and group (traffic.h). A wait that
// takes longer than the limit throws an Error which names operation, layer and peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reel/base/record.h"
#include "reel/base/threads.h"
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
  Recorder* recorder = nullptr;  // gets every message, and every wait as "wait"
  double limit = 300;            // seconds that a wait may take
  double exposed = 0;            // seconds spent waiting
  int in_flight = 0;             // exchanges that are not done
  bool hollow = false;           // messages carry one byte: what the same work takes where the network costs nothing
  Timer since_poll;
};

struct Message {
  int peer;
  void* data;  // of outgoing messages it is only read
  std::int64_t bytes;
  int tag = 0;  // messages with the same tag arrive in the order in which they were sent
};

// Messages under way.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool poll() = 0;                 // true: all done
  virtual std::vector<int> missing() = 0;  // ranks of the world whose messages are not done
};

// A started exchange. Its buffers must stay until it is done. Dropped before that, it is waited for, unless an
// exception is on its way.
class Handle {
 public:
  Handle() = default;  // done
  Handle(std::unique_ptr<Pending> pending, std::shared_ptr<Shared> shared, Operation operation);
  Handle(Handle&& other) noexcept = default;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  bool done();  // polls
  void wait();

 private:
  void finish();
  std::unique_ptr<Pending> pending_;
  std::shared_ptr<Shared> shared_;
  Operation operation_;
};

class Comm {
 public:
  using Sizes = std::span<const std::int64_t>;  // bytes (or floats, where it says so), one a rank

  virtual ~Comm() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }  // of the group: "world", "sequence", ...
  Shared& shared() { return *shared_; }

  Handle start_all_to_all(const void* send, Sizes send_bytes, void* receive, Sizes receive_bytes, const Where& where,
                          const char* operation = "all_to_all");
  Handle start_all_gather(const void* own, void* all, Sizes bytes, const Where& where,
                          const char* operation = "all_gather");
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

  // Ranks of the same color become a group, ordered by their rank here. All ranks call it with the same function.
  virtual std::unique_ptr<Comm> split(const std::function<int(int rank)>& color, const std::string& name) = 0;

  // Lets messages go on, if there are any. Cheap: at most once in 20 us it does something.
  void poll();

 protected:
  Comm(int rank, int size, std::string name, std::shared_ptr<Shared> shared)
      : rank_(rank), size_(size), name_(std::move(name)), shared_(std::move(shared)) {}
  // Starts all messages at once; null where there is nothing to wait for.
  virtual std::unique_ptr<Pending> start(std::span<const Message> outgoing, std::span<const Message> incoming) = 0;
  virtual void progress() {}
  const std::shared_ptr<Shared>& shared_state() const { return shared_; }

 private:
  Handle exchange(const char* operation, std::span<const Message> outgoing, std::span<const Message> incoming,
                  const Where& where);

  int rank_, size_;
  std::string name_;
  std::shared_ptr<Shared> shared_;
};

// From now on the compute loops of `threads` poll `comm`, if it has ranks to talk to; `comm` outlives them.
void poll_while_computing(Threads& threads, Comm& comm);

std::unique_ptr<Comm> make_self();
std::unique_ptr<Comm> make_ghost(int rank, int size);

}  // namespace reel::comm
