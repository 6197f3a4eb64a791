// Batches of training clips, read ahead of the training by a thread of its own.
//
// Clips come in epochs; each epoch has all of them in a new random order (permutation.h), and batches may span epochs.
// A clip that cannot be read is left out and another one, from the other half of its epoch, stands in for it. So what
// is at a place of that endless order depends on the place alone: data-parallel ranks read their own clips of a batch
// and nothing else, and have the batch of one rank between them.
//
// position() counts places. It is all a checkpoint needs: a loader that starts at position p yields exactly what the
// uninterrupted one yielded after p, without reading anything before, with any number of ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reel/data/source.h"

namespace reel::data {

struct Batch {           // of the clips that are wanted
  Buffer<float> values;  // [batch][channels][frames][height][width]
  Buffer<float> text;    // [batch][text_tokens][text_width]
  std::vector<int> labels;
  std::vector<std::string> captions;
};

class Loader {
 public:
  struct Options {
    std::int64_t batch = 1;
    std::uint64_t seed = 0;
    std::int64_t position = 0;  // where to start
    // The clips of each batch that are wanted here: [first, first + count); -1: up to the last.
    std::int64_t first = 0, count = -1;
  };

  // The source must outlive the loader.
  Loader(Source& source, const Options& options);
  ~Loader();  // waits for the batch being read
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // What the reading thread throws is thrown here, after the batches before it: an Error when no clip of a whole epoch
  // can be read.
  Batch next();
  std::int64_t position() const { return position_; }  // after the last batch that next() gave

 private:
  struct Ready {
    Batch batch;
    std::int64_t position;  // after it
  };
  void work();
  bool wait_for_room();  // false: stop
  Batch read_batch(std::int64_t position);
  void read_place(std::int64_t place, Clip& clip);

  Source& source_;
  const std::int64_t batch_, first_, count_;
  const std::uint64_t seed_;
  std::int64_t position_;  // the caller's

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Ready> ready_;
  std::exception_ptr error_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace reel::data
