#include "reel/base/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "reel/base/error.h"
#include "reel/base/launched.h"
#include "reel/base/sized.h"

namespace reel {

namespace {

thread_local int working_as = -1;  // index of the thread while it runs chunks

int cores_of(pid_t process) {  // 0: this one
  cpu_set_t set;
  if (sched_getaffinity(process, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Condition>
void look_for(const Condition& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < kPatience) {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return;
      pause();
    }
  }
}

}  // namespace

int share_of_cores(int own, int of_launcher, int ranks) { return std::max(1, std::min(own, of_launcher / ranks)); }

int default_threads() {
  const int ranks = launched().on_host, own = cores_of(0);
  return share_of_cores(own, ranks > 1 ? std::max(own, cores_of(::getppid())) : own, ranks);
}

Threads::Threads(int count) {
  if (count < 1 || count > 4096) {
    throw Error(fmt::format("{} threads asked for", count), "use a number between 1 and 4096");
  }
  scratch_.resize(sized(count) + 1);
  patient_ = count <= default_threads();
  try {
    for (int thread = 1; thread < count; ++thread) workers_.emplace_back([this, thread] { serve(thread); });
  } catch (const std::exception& error) {  // no thread, or no memory for one
    const std::size_t started = workers_.size() + 1;
    stop();
    throw Error(fmt::format("only {} of {} threads can be started: {}", started, count, error.what()),
                "use fewer threads, or raise the limit of processes (ulimit -u, or that of the container)");
  }
}

Threads::~Threads() { stop(); }

void Threads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

float* Threads::scratch(int thread, std::size_t floats) {
  Buffer<float>& mine = scratch_[sized(thread)];
  mine.grow(floats);
  return mine.data();
}

void Threads::serve(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    if (patient_) look_for([&] { return called(seen); });
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return called(seen); });
      if (stop_) return;
      seen = generation_;
      ++inside_;
    }
    take_chunks(thread);
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) done_.notify_one();
  }
}

void Threads::take_chunks(int thread) {
  working_as = thread;
  for (;;) {
    const std::int64_t chunk = next_.fetch_add(1);
    if (chunk >= chunks_) break;
    try {
      call_(context_, chunk, thread);
      poll(thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(chunks_);  // the rest is not begun
    }
  }
  working_as = -1;
}

void Threads::run_chunks(std::int64_t chunks, Call call, void* context) {
  if (chunks <= 0) return;
  if (working_as >= 0) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) call(context, chunk, working_as);
    return;
  }
  const std::lock_guard one_run(run_mutex_);
  {
    const std::lock_guard lock(mutex_);
    call_ = call, context_ = context, chunks_ = chunks, error_ = nullptr;
    next_.store(0);
    ++generation_;
    open_ = true;
  }
  if (chunks > 1) start_.notify_all();
  take_chunks(0);
  if (patient_ && !poll_) look_for([&] { return inside_ == 0; });
  std::unique_lock lock(mutex_);
  // A worker that wakes after this point finds the run closed: nobody waits for a late sleeper.
  open_ = false;
  if (poll_) {
    while (!done_.wait_for(lock, std::chrono::microseconds(50), [&] { return inside_ == 0; })) {
      lock.unlock();
      std::exception_ptr failed;
      try {
        poll_();
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      if (failed && !error_) error_ = failed;
    }
  } else {
    done_.wait(lock, [&] { return inside_ == 0; });
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace reel
