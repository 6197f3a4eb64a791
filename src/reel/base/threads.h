// The thread team.
//
// run(chunks, work) calls work(chunk, thread) once for every chunk and returns when all are done. Chunks are handed out
// in order to whoever is free, so results must not depend on which thread runs a chunk: cut work by shape, never by
// count(), let a chunk own what it writes, and the bits are the same for any number of threads.
//
// Idle threads sleep (ranks share cores; spinning would steal them), but not at once where every thread of every rank
// has a core of its own: for kPatience they look whether the next run begins, since waking takes longer than many a
// kernel. The calling thread works too; between its chunks and while it waits for the others it calls the poll hook,
// which is how messages make progress during compute; chunks that take milliseconds call it in between (poll). An
// exception thrown by work is rethrown by run after the chunks already begun have ended. run inside work runs inline.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "reel/base/buffer.h"

namespace reel {

// How long a thread looks for work, or for the end of a run, before it sleeps. On two cores of a virtual machine a run
// of 75 us took 113-133 us at the median without it, 76 with it; between the operations of a training step lie 1-30 us.
constexpr std::chrono::microseconds kPatience{50};

// Cores that mpirun or srun has, divided by the ranks it started on this host, but no more than this process may use (a
// launcher that binds each rank has divided them already); without a launcher all it may use; at least 1.
int default_threads();
int share_of_cores(int own, int of_launcher, int ranks);

class Threads {
 public:
  explicit Threads(int count = default_threads());
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  // From inside a chunk: calls the hook where `thread` is the caller of run.
  void poll(int thread) const {
    if (thread == 0 && poll_) poll_();
  }

  // Memory that is kept from run to run, since fresh pages cost more than many a kernel: one block for each thread and
  // one for the caller of run. Uninitialised; valid until the same owner asks again. Only kernels use it, and only for
  // one call.
  float* scratch(int thread, std::size_t floats);
  float* shared_scratch(std::size_t floats) { return scratch(count(), floats); }

  template <class Work>  // void(std::int64_t chunk, int thread)
  void run(std::int64_t chunks, Work&& work) {
    run_chunks(
        chunks,
        [](void* context, std::int64_t chunk, int thread) {
          (*static_cast<std::remove_reference_t<Work>*>(context))(chunk, thread);
        },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Call = void (*)(void* context, std::int64_t chunk, int thread);
  void run_chunks(std::int64_t chunks, Call call, void* context);
  void take_chunks(int thread);
  void serve(int thread);
  void stop();
  bool called(std::uint64_t seen) const { return stop_ || (open_ && generation_ != seen); }

  std::vector<std::thread> workers_;
  std::vector<Buffer<float>> scratch_;  // count() + 1
  std::function<void()> poll_;

  std::mutex run_mutex_;  // one run at a time
  std::mutex mutex_;      // guards what follows; atomics may be looked at without it
  std::condition_variable start_, done_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<bool> open_{false}, stop_{false};
  std::atomic<int> inside_{0};  // workers taking chunks of the present run
  std::exception_ptr error_;
  bool patient_ = false;  // there are cores enough to look for work before sleeping

  Call call_ = nullptr;
  void* context_ = nullptr;
  std::int64_t chunks_ = 0;
  std::atomic<std::int64_t> next_{0};
};

}  // namespace reel
