#include "reel/data/loader.h"

#include <algorithm>
#include <utility>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/data/permutation.h"

namespace reel::data {

namespace {

constexpr std::uint64_t kLoaderPurpose = 0x6c6f61646572;  // sets these random numbers apart from those of others
constexpr std::size_t kAhead = 3;                         // batches: evens out clips that take longer than a step

}  // namespace

Loader::Loader(Source& source, const Options& options)
    : source_(source),
      batch_(options.batch),
      first_(options.first),
      count_(options.count < 0 ? options.batch - options.first : options.count),
      seed_(options.seed),
      position_(options.position) {
  REEL_CHECK(batch_ > 0 && position_ >= 0 && first_ >= 0 && count_ >= 0 && first_ + count_ <= batch_);
  thread_ = std::thread([this] { work(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Loader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || error_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(error_);
  Ready ready = std::move(ready_.front());
  ready_.pop_front();
  position_ = ready.position;
  lock.unlock();
  changed_.notify_all();
  return std::move(ready.batch);
}

void Loader::work() {
  std::int64_t position = position_;
  try {
    while (wait_for_room()) {
      Batch batch = read_batch(position);
      position += batch_;
      const std::lock_guard lock(mutex_);
      ready_.push_back({std::move(batch), position});
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

bool Loader::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || ready_.size() < kAhead; });
  return !stop_;
}

Batch Loader::read_batch(std::int64_t position) {
  const Format& format = source_.format();
  const auto count = sized(count_);
  Batch batch{Buffer<float>(count * format.values()), Buffer<float>(count * format.text_values()), {}, {}};
  Clip clip;
  for (std::size_t i = 0; i < count; ++i) {
    read_place(position + first_ + static_cast<std::int64_t>(i), clip);
    std::copy(clip.values.begin(), clip.values.end(), batch.values.data() + i * format.values());
    std::copy(clip.text.begin(), clip.text.end(), batch.text.data() + i * format.text_values());
    batch.labels.push_back(clip.label);
    batch.captions.push_back(std::move(clip.caption));
  }
  return batch;
}

void Loader::read_place(std::int64_t place, Clip& clip) {
  const std::int64_t size = source_.size(Split::kTraining), epoch = place / size;
  const Random random(seed_ ^ kLoaderPurpose, static_cast<std::uint64_t>(epoch));
  const auto read = [&](std::int64_t at) {
    return source_.read(Split::kTraining, epoch * size + permuted(at % size, size, random), clip);
  };
  if (read(place)) return;
  for (std::int64_t i = 0; i < size; ++i) {
    if (read(place % size + size / 2 + i)) return;
  }
  throw Error(fmt::format("none of the {} training clips can be read", size),
              "see the warnings above: each says what is wrong with its file");
}

}  // namespace reel::data
