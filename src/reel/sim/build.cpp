#include "reel/sim/build.h"

#include <algorithm>
#include <map>
#include <memory>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/sim/layers.h"
#include "reel/sim/pipeline.h"

namespace reel::sim {

namespace {

using cost::CollectiveOp;
using cost::KernelClass;

constexpr double kMiB = 1 << 20;

// A layer, or the embedding or the head, in its place.
struct Item {
  const LayerWork* work;
  int layer;
};

// Everything of one stage, of the ranks that do the same there.
class Stage {
 public:
  Stage(Builder& builder, const Coordinates& who, std::map<int, LayerWork>& shared)
      : b_(builder), job_(builder.job), who_(who), stages_(job_.parallel.pipeline), chunks_(job_.parallel.interleave) {
    gradient_bytes_ = job_.gradients == "fp32" ? 4 : 2;
    const double tokens = static_cast<double>(job_.micro_batch) * static_cast<double>(job_.model.tokens()) /
                          static_cast<double>(job_.parallel.context);
    hop_ = 2 * tokens * static_cast<double>(job_.model.hidden);
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) items_.push_back(items_of(chunk, shared));
    for (const auto& items : items_) {
      for (const Item& item : items) parameters_ += item.work->parameters, experts_ += item.work->expert_parameters;
    }
  }

  Program program() {
    Program program;
    const bool gathers = job_.parallel.zero == 1 && job_.overlap_parameters;
    const bool reduces = job_.parallel.zero != 3 && job_.overlap_gradients;
    const auto last = static_cast<std::int32_t>(job_.micro_batches()) - 1;
    std::map<std::tuple<bool, std::int32_t, bool>, std::int32_t> blocks;
    for (const Turn& turn : pipeline_order(who_.stage, stages_, chunks_, job_.micro_batches())) {
      const bool special = turn.forward ? gathers && turn.micro_batch == 0 : reduces && turn.micro_batch == last;
      const auto [entry, fresh] = blocks.try_emplace(std::tuple(turn.forward, turn.chunk, special),
                                                     static_cast<std::int32_t>(program.blocks.size()));
      if (fresh) program.blocks.push_back(turn.forward ? forward(turn.chunk, special) : backward(turn.chunk, special));
      program.order.push_back({entry->second, turn.micro_batch});
    }
    program.order.push_back({static_cast<std::int32_t>(program.blocks.size()), -1});
    program.blocks.push_back(optimizer());
    const Memory held = memory();
    program.static_bytes = held.weights + held.gradients + held.optimizer;
    return program;
  }

  Memory memory() const {
    const double wide = static_cast<double>(job_.parallel.data * job_.parallel.context);
    const double expert_wide = static_cast<double>(job_.expert_ranks()) / static_cast<double>(job_.parallel.expert);
    const auto shared = [&](std::int64_t from) {  // parameters held where ZeRO shares from this stage on
      return job_.parallel.zero >= from ? parameters_ / wide + experts_ / expert_wide : parameters_ + experts_;
    };
    Memory memory;
    memory.weights = 2 * shared(3);
    memory.gradients = gradient_bytes_ * shared(3);
    memory.optimizer = 12 * shared(1);  // f32 weights and two moments
    return memory;
  }

 private:
  bool first(std::int64_t chunk) const { return who_.stage == 0 && chunk == 0; }
  bool last(std::int64_t chunk) const { return who_.stage == stages_ - 1 && chunk == chunks_ - 1; }
  bool blocking() const { return chunks_ == 1; }  // Megatron's plain 1F1B waits for its messages, interleaved does not
  bool shares_embedding() const { return job_.model.kind == "gpt" && job_.model.tied; }

  std::vector<Item> items_of(std::int64_t chunk, std::map<int, LayerWork>& shared) {
    std::vector<Item> items;
    const bool gpt = job_.model.kind == "gpt";
    enum { kLayer, kEmbedding, kHead };
    const auto get = [&](int key, const auto& make) {
      const auto found = shared.find(key);
      return found != shared.end() ? &found->second : &shared.emplace(key, make()).first->second;
    };
    if (gpt && first(chunk)) items.push_back({get(kEmbedding, [&] { return gpt_embedding(b_); }), -1});
    const std::int64_t count = job_.model.layers / (stages_ * chunks_);
    const std::int64_t begin = (chunk * stages_ + who_.stage) * count;
    for (std::int64_t layer = begin; layer < begin + count; ++layer) {
      if (gpt) {
        items.push_back({get(kLayer, [&] { return gpt_layer(b_); }), static_cast<int>(layer)});
      } else {
        own_.push_back(std::make_unique<LayerWork>(dit_layer(b_, layer, who_)));
        items.push_back({own_.back().get(), static_cast<int>(layer)});
      }
    }
    if (gpt && last(chunk)) items.push_back({get(kHead, [&] { return head(); }), -1});
    return items;
  }

  LayerWork head() {
    LayerWork work = gpt_head(b_);
    if (shares_embedding() && stages_ == 1) work.parameters = 0;  // counted with the embedding
    return work;
  }

  // Gathers or reduces the parameters of items on kData; how many tasks that were.
  int exchange(Tasks& tasks, std::string_view name, double parameters, double experts, CollectiveOp op, double bytes,
               std::uint8_t waits) {
    const std::size_t before = tasks.list().size();
    if (parameters > 0) tasks.beside(name, kDataSlot, op, bytes * parameters, Stream::kData, waits);
    if (experts > 0) tasks.beside(name, kExpertDataSlot, op, bytes * experts, Stream::kData, waits);
    return static_cast<int>(tasks.list().size() - before);
  }

  void wait_data(Tasks& tasks, int lag) {
    if (lag == 0) {
      tasks.wait_next(bit(Stream::kData));
    } else {
      tasks.wait_next(Stream::kData, lag);
    }
  }

  // A message to the next or the previous stage. It is cut over the tensor ranks; without sequence parallelism they put
  // it together again (Megatron's scatter-gather).
  void receive(Tasks& tasks, bool forward) {
    const Stream stream = forward ? Stream::kReceiveForward : Stream::kReceiveBackward;
    tasks.receive(forward ? "receive activations" : "receive gradients", forward ? kForwardIn : kBackwardIn, stream,
                  blocking() ? bit(Stream::kCompute) : 0);
    tasks.wait_next(bit(stream));
  }
  void gather_received(Tasks& tasks) {
    if (!job_.sequence_parallel())
      tasks.collective("all-gather of the message", kTensorSlot, CollectiveOp::kAllGather, hop_, Category::kPipeline);
  }
  void send(Tasks& tasks, bool forward) {
    tasks.send(forward ? "send activations" : "send gradients", forward ? kForwardOut : kBackwardOut,
               hop_ / static_cast<double>(job_.parallel.tensor), forward ? Stream::kSendForward : Stream::kSendBackward,
               bit(Stream::kCompute));
  }

  // Runs items one after the other, each with its weights gathered before (ZeRO-3): the next one's are fetched while
  // one runs. Backward reduces each one's gradients.
  void sharded(Tasks& tasks, const std::vector<Item>& items, bool forward) {
    int issued = 0;
    std::vector<int> gathered(items.size());
    const auto gather = [&](std::size_t i) {
      issued += exchange(tasks, "gather weights", items[i].work->parameters, items[i].work->expert_parameters,
                         CollectiveOp::kAllGather, 2, bit(Stream::kCompute));
      gathered[i] = issued;
    };
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i == 0 || !job_.overlap_parameters) gather(i);
      if (job_.overlap_parameters && i + 1 < items.size()) gather(i + 1);
      wait_data(tasks, issued - gathered[i]);
      tasks.append_of_layer(forward ? items[i].work->forward : items[i].work->backward, items[i].layer);
      if (forward) continue;
      issued += exchange(tasks, "scatter gradients", items[i].work->parameters, items[i].work->expert_parameters,
                         CollectiveOp::kReduceScatter, gradient_bytes_, bit(Stream::kCompute));
      if (!job_.overlap_gradients) tasks.wait_next(bit(Stream::kData));
    }
  }

  // Buckets of whole items, in order: [begin, end) of each.
  std::vector<std::pair<std::size_t, std::size_t>> buckets(const std::vector<Item>& items, double bytes) const {
    std::vector<std::pair<std::size_t, std::size_t>> result;
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (result.empty() || sum >= job_.bucket * kMiB) result.emplace_back(i, i), sum = 0;
      result.back().second = i + 1;
      sum += bytes * (items[i].work->parameters + items[i].work->expert_parameters);
    }
    return result;
  }
  static std::pair<double, double> sum(const std::vector<Item>& items, std::pair<std::size_t, std::size_t> bucket) {
    std::pair<double, double> result;
    for (std::size_t i = bucket.first; i < bucket.second; ++i)
      result.first += items[i].work->parameters, result.second += items[i].work->expert_parameters;
    return result;
  }

  // ZeRO-1: at the start of a step the weights of all chunks are gathered, bucket by bucket in the order of use.
  void gather_all(Tasks& tasks) {
    std::vector<int> counts;
    for (const auto& items : items_) {
      for (const auto& part : buckets(items, 2)) {
        const auto [dense, experts] = sum(items, part);
        counts.push_back(exchange(tasks, "gather weights", dense, experts, CollectiveOp::kAllGather, 2, 0));
      }
    }
    int later = 0;
    for (const int count : counts) later += count;
    std::size_t at = 0;
    gathered_later_.clear();
    for (const auto& items : items_) {
      auto& of_chunk = gathered_later_.emplace_back();
      for (std::size_t p = 0; p < buckets(items, 2).size(); ++p) of_chunk.push_back(later -= counts[at++]);
    }
  }

  Block forward(std::int64_t chunk, bool gathers) {
    const auto& items = items_[sized(chunk)];
    Tasks tasks(b_, -1);
    if (stages_ > 1 && blocking()) tasks.wait_next(bit(Stream::kSendForward) | bit(Stream::kSendBackward));
    if (!first(chunk)) {
      receive(tasks, true);
      gather_received(tasks);
    }
    if (job_.parallel.zero == 3) {
      sharded(tasks, items, true);
    } else if (gathers) {
      if (chunk == 0) gather_all(tasks);
      const auto parts = buckets(items, 2);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        wait_data(tasks, gathered_later_[sized(chunk)][p]);
        for (std::size_t i = parts[p].first; i < parts[p].second; ++i)
          tasks.append_of_layer(items[i].work->forward, items[i].layer);
      }
    } else {
      for (const Item& item : items) tasks.append_of_layer(item.work->forward, item.layer);
    }
    if (!last(chunk)) send(tasks, true);
    Block block;
    block.name = b_.name("forward");
    block.keeps = kept(items);
    for (const Item& item : items) block.needs = std::max(block.needs, item.work->working + gathered_bytes(item));
    block.needs += block.keeps;
    block.tasks = std::move(tasks.list());
    return block;
  }

  Block backward(std::int64_t chunk, bool reduces) {
    std::vector<Item> items(items_[sized(chunk)].rbegin(), items_[sized(chunk)].rend());
    Tasks tasks(b_, -1);
    if (stages_ > 1 && blocking()) tasks.wait_next(bit(Stream::kSendForward) | bit(Stream::kSendBackward));
    if (!last(chunk)) {
      receive(tasks, false);
      gather_received(tasks);
    }
    if (job_.parallel.zero == 3) {
      sharded(tasks, items, false);
    } else if (reduces) {
      for (const auto& part : buckets(items, gradient_bytes_)) {
        for (std::size_t i = part.first; i < part.second; ++i)
          tasks.append_of_layer(items[i].work->backward, items[i].layer);
        const auto [dense, experts] = sum(items, part);
        reduce(tasks, dense, experts);
      }
    } else {
      for (const Item& item : items) tasks.append_of_layer(item.work->backward, item.layer);
    }
    if (!first(chunk)) send(tasks, false);
    Block block;
    block.name = b_.name("backward");
    block.keeps = -kept(items);
    for (const Item& item : items) {
      const double again = job_.recompute == "full" ? item.work->kept - item.work->checkpoint : 0;
      block.needs = std::max(block.needs, item.work->working + again + gathered_bytes(item));
    }
    block.tasks = std::move(tasks.list());
    return block;
  }

  int reduce(Tasks& tasks, double dense, double experts) {
    const CollectiveOp op = job_.parallel.zero == 1 ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
    return exchange(tasks, "reduce gradients", dense, experts, op, gradient_bytes_, bit(Stream::kCompute));
  }

  Block optimizer() {
    Tasks tasks(b_, -1);
    if (job_.parallel.zero != 3 && !job_.overlap_gradients) reduce(tasks, parameters_, experts_);
    tasks.wait_next(bit(Stream::kData));
    if (shares_embedding() && stages_ > 1 && (who_.stage == 0 || who_.stage == stages_ - 1)) {
      const auto& items = items_[who_.stage == 0 ? 0 : items_.size() - 1];
      const LayerWork& work = who_.stage == 0 ? *items.front().work : *items.back().work;
      tasks.collective("all-reduce of the embedding's gradient", kEmbeddingSlot, CollectiveOp::kAllReduce,
                       gradient_bytes_ * work.parameters, Category::kPipeline);
    }
    tasks.kernel("optimizer", b_.device.optimizer_seconds(memory().optimizer / 12), KernelClass::kMemory,
                 Category::kOptimizer);
    if (job_.parallel.zero == 1 && !job_.overlap_parameters)
      exchange(tasks, "gather weights", parameters_, experts_, CollectiveOp::kAllGather, 2, bit(Stream::kCompute));
    tasks.wait_next(0xff & ~bit(Stream::kCompute));  // a step ends when everything has
    tasks.kernel("end of the step", 0, KernelClass::kMemory);
    Block block;
    block.name = b_.name("optimizer");
    block.tasks = std::move(tasks.list());
    return block;
  }

  double kept(const std::vector<Item>& items) const {
    double bytes = 0;
    for (const Item& item : items) bytes += job_.recompute == "full" ? item.work->checkpoint : item.work->kept;
    return bytes;
  }
  // ZeRO-3: two layers' weights (one is fetched ahead) and one's gradient, whole.
  double gathered_bytes(const Item& item) const {
    return job_.parallel.zero == 3 ? (4 + gradient_bytes_) * (item.work->parameters + item.work->expert_parameters) : 0;
  }

  Builder& b_;
  const Job& job_;
  Coordinates who_;
  std::int64_t stages_, chunks_;
  double gradient_bytes_ = 4, hop_ = 0;
  double parameters_ = 0, experts_ = 0;
  std::vector<std::vector<Item>> items_;          // by chunk
  std::vector<std::vector<int>> gathered_later_;  // by chunk and bucket: tasks on kData behind its own
  std::vector<std::unique_ptr<LayerWork>> own_;
};

}  // namespace

double peak_bytes(const Program& program) {
  double held = program.static_bytes, peak = held;
  for (const Step& step : program.order) {
    const Block& block = program.blocks[sized(step.block)];
    peak = std::max(peak, held + block.needs);
    held += block.keeps;
    peak = std::max(peak, held);
  }
  return peak;
}

Built build(const Job& job, const cost::Cluster& cluster, const Measured& measured) {
  Built built;
  Workload& w = built.workload;
  Builder builder(job, cluster, measured, w);
  std::map<int, LayerWork> shared;
  // Ranks of a stage do the same, unless heads differ in sparsity: then each part of the heads has a program.
  const bool own = !job.model.head_sparsity.empty();
  const bool copies = static_cast<std::int64_t>(job.model.head_sparsity.size()) > job.model.heads;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::int32_t> programs;
  w.program_of.resize(sized(job.devices()));
  std::vector<std::int32_t> of_stage(sized(job.parallel.pipeline), -1);
  for (std::int64_t rank = 0; rank < job.devices(); ++rank) {
    const Coordinates who = builder.layout.coordinates(rank);
    std::int32_t* program = &of_stage[sized(who.stage)];
    if (own)
      program =
          &programs
               .try_emplace(
                   std::tuple(who.stage, copies ? who.copy : 0, who.piece % job.parallel.plan.ulysses, who.part), -1)
               .first->second;
    if (*program < 0) {
      *program = static_cast<std::int32_t>(w.programs.size());
      Stage stage(builder, who, shared);
      w.programs.push_back(stage.program());
      Memory memory = stage.memory();
      memory.activations = peak_bytes(w.programs.back()) - w.programs.back().static_bytes;
      built.memory.push_back(memory);
    }
    w.program_of[sized(rank)] = *program;
  }
  if (!job.slow_ranks.empty()) {
    w.slow.assign(sized(job.devices()), 1);
    for (std::size_t i = 0; i < job.slow_ranks.size(); ++i) w.slow[sized(job.slow_ranks[i])] = job.slow_rank_factors[i];
  }
  built.priced = builder.priced();
  built.extrapolated = builder.extrapolated();
  return built;
}

}  // namespace reel::sim
