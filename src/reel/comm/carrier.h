// What carries messages between the ranks of a world: MPI, or nobody (a ghost's, a single rank's).
//
// Ranks are those of the world here, and tags those on the way (tags.h); Comm translates.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace reel::comm {

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

class Carrier {
 public:
  Carrier(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Carrier() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Starts all messages at once; null where there is nothing to wait for.
  virtual std::unique_ptr<Pending> start(std::span<const Message> outgoing, std::span<const Message> incoming) = 0;
  // Lets messages under way make progress.
  virtual void progress() {}
  virtual int most_tag() const { return std::numeric_limits<int>::max(); }

 private:
  int rank_, size_;
};

}  // namespace reel::comm
