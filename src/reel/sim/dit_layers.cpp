#include <algorithm>
#include <numeric>

#include "reel/base/sized.h"
#include "reel/sim/layers.h"

namespace reel::sim {

namespace {

using cost::CollectiveOp;
using cost::Direction;
using cost::KernelClass;

constexpr std::int64_t kPredictorRank = 16;    // of a head's low-rank queries and keys (DSV)
constexpr std::int64_t kPredictorSample = 64;  // the predictor learns from one query in so many (DSV)

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct DitSizes {
  explicit DitSizes(const Job& job)
      : batch(job.micro_batch),
        all(job.model.tokens()),
        context(job.parallel.context),
        tokens(batch * ceil_div(all, context)),
        tensor(job.parallel.tensor),
        hidden(job.model.hidden),
        head_dim(job.model.head_dim),
        heads(job.model.heads / tensor),
        cut(static_cast<double>(job.sequence_parallel() ? tensor : 1)) {}

  std::int64_t batch, all, context, tokens, tensor, hidden, head_dim, heads;
  double cut;
  double state() const { return static_cast<double>(tokens) * static_cast<double>(hidden); }
  double share(std::int64_t whole) const {  // of what the tensor ranks share
    return static_cast<double>(whole) / static_cast<double>(tensor);
  }
  double part() const { return 2 * state() / static_cast<double>(tensor); }  // bytes of q, of k, of v
};

double mean(std::vector<double>::const_iterator begin, std::int64_t count) {
  return std::accumulate(begin, begin + count, 0.0) / static_cast<double>(count);
}

// The sparsity of a layer as the job says it, or the mean of its heads.
double layer_sparsity(const Model& m, std::int64_t layer) {
  if (!m.sparsity.empty()) return m.sparsity[m.sparsity.size() == 1 ? 0 : sized(layer)];
  const auto heads = static_cast<std::int64_t>(m.head_sparsity.size());
  return heads == 0 ? 0 : mean(m.head_sparsity.begin(), heads);
}

// The sparsity of the heads that a rank computes after the all-to-all.
double rank_sparsity(const Job& job, std::int64_t layer, const Coordinates& who) {
  const Model& m = job.model;
  if (m.head_sparsity.empty()) return layer_sparsity(m, layer);
  const std::int64_t per_part = m.heads / job.parallel.tensor, count = per_part / job.parallel.plan.ulysses;
  std::int64_t first = who.part * per_part + who.piece % job.parallel.plan.ulysses * count;
  if (static_cast<std::int64_t>(m.head_sparsity.size()) > m.heads) first += who.copy * m.heads;
  return mean(m.head_sparsity.begin() + first, count);
}

// Self-attention over the clip, with Ulysses all-to-alls around it and a ring of keys and values in it.
class Attention3d {
 public:
  // All ranks decide alike, by the sparsity of the layer: they exchange the predictor's results.
  Attention3d(Builder& builder, const DitSizes& sizes, double of_layer, double of_rank)
      : b_(builder), s_(sizes), sparsity_(of_layer) {
    const Parallel& p = b_.job.parallel;
    heads_ = s_.heads / p.plan.ulysses;
    queries_ = ceil_div(s_.all, p.plan.ring);
    const double dense = pass_seconds(Direction::kForward, 0) + pass_seconds(Direction::kBackward, 0);
    const double sparse = pass_seconds(Direction::kForward, sparsity_) + pass_seconds(Direction::kBackward, sparsity_) +
                          selection_seconds();
    sparse_ = sparse < dense;
    sparsity_ = sparse_ ? of_rank : 0;
  }

  void forward(Tasks& tasks, bool again) const {
    const Parallel& p = b_.job.parallel;
    switch_heads(tasks, 3);
    if (sparse_ && b_.job.model.selection && !again) select(tasks);
    ring(tasks, Direction::kForward, p.plan.ring);
    switch_heads(tasks, 1);
  }
  void backward(Tasks& tasks) const {
    switch_heads(tasks, 1);
    ring(tasks, Direction::kBackward, b_.job.parallel.plan.ring);
    switch_heads(tasks, 3);
  }
  bool sparse() const { return sparse_; }
  // Bytes of the chosen keys' numbers. DSV moves them to the host between forward and backward, so a device holds those
  // of a layer only.
  double lists() const {
    if (!sparse()) return 0;
    const double groups = static_cast<double>(ceil_div(queries_, b_.job.model.group));
    return 4.0 * static_cast<double>(s_.batch * heads_) * groups * (1 - sparsity_) * static_cast<double>(s_.all);
  }

 private:
  void switch_heads(Tasks& tasks, int tensors) const {
    if (b_.job.parallel.plan.ulysses == 1) return;
    tasks.memory("pack heads", 4 * s_.part() / 2 * tensors);
    tasks.collective(tensors == 1 ? "all-to-all of the output" : "all-to-all of queries, keys, values", kContextSlot,
                     CollectiveOp::kAllToAll, s_.part() * tensors, Category::kContext);
  }

  double pass_seconds(Direction pass, double sparsity) const {
    const std::int64_t steps = b_.job.parallel.plan.ring;
    const std::int64_t keys = ceil_div(s_.all, steps);
    const double each =
        sparsity > 0
            ? b_.device.seconds(
                  cost::SparseAttention{s_.batch, heads_, queries_, keys, s_.head_dim, b_.job.model.group, sparsity},
                  pass)
            : b_.device.seconds(
                  cost::Attention{s_.batch, heads_, 0, queries_, keys, s_.head_dim, false, b_.job.model.flash}, pass);
    return each * static_cast<double>(steps);
  }

  double selection_seconds() const {
    if (!b_.job.model.selection || sparsity_ <= 0) return 0;
    return b_.device.seconds(
        cost::Selection{s_.batch, heads_, queries_, s_.all, b_.job.model.group, 1, kPredictorRank});
  }

  // Low-rank queries and keys of the hidden states, their exchange, the choice, and the predictor's own learning on a
  // sample of queries: scores, true scores, and the gradients of the first.
  void select(Tasks& tasks) const {
    const std::int64_t wide = 2 * kPredictorRank * s_.heads;
    tasks.gemm("predictor", s_.tokens, wide, s_.hidden, 0, false);
    if (b_.job.parallel.plan.ulysses > 1) {
      tasks.collective("all-to-all of the predictor", kContextSlot, CollectiveOp::kAllToAll,
                       2.0 * static_cast<double>(s_.tokens) * static_cast<double>(wide), Category::kContext);
    }
    if (b_.job.parallel.plan.ring > 1) {  // every rank of the ring needs the keys' low-rank parts of all
      tasks.memory("low-rank keys of the ring",
                   4.0 * static_cast<double>(s_.batch * s_.all) * static_cast<double>(kPredictorRank * heads_));
    }
    tasks.kernel("selection", selection_seconds(), KernelClass::kMemory);
    const std::int64_t sample = std::max<std::int64_t>(1, queries_ / kPredictorSample);
    for (const std::int64_t k : {kPredictorRank, s_.head_dim, kPredictorRank, kPredictorRank}) {
      tasks.kernel("predictor loss", b_.device.seconds(cost::Gemm{sample, s_.all, k, s_.batch * heads_}),
                   KernelClass::kGemm);
    }
    tasks.gemm("predictor gradient", wide, s_.hidden, s_.tokens, 0, false);
  }

  void ring(Tasks& tasks, Direction pass, std::int64_t steps) const {
    const double each = pass_seconds(pass, sparsity_) / static_cast<double>(steps);
    const std::string_view name = sparse_ ? "sparse attention" : "attention";
    const double bytes = 2 * s_.part() * (pass == Direction::kForward ? 1 : 2);
    for (std::int64_t step = 0; step < steps; ++step) {
      const bool more = step + 1 < steps;
      if (more) {
        tasks.send("send keys and values", kRingOut, bytes, Stream::kRingSend,
                   step == 0 ? bit(Stream::kCompute) : bit(Stream::kRingReceive));
      }
      if (step > 0) tasks.wait_next(bit(Stream::kRingReceive));
      tasks.kernel(name, each, KernelClass::kAttention);
      if (more) tasks.receive("receive keys and values", kRingIn, Stream::kRingReceive, 0);
    }
  }

  Builder& b_;
  const DitSizes& s_;
  double sparsity_;
  bool sparse_ = false;
  std::int64_t heads_ = 0, queries_ = 0;
};

// Attention within frames (spatial) or along time at each place (temporal). The rows are cut by place: time is whole
// on every rank, so temporal attention needs no exchange; spatial attention does.
void axis_attention(Builder& b, Tasks& tasks, const DitSizes& s, bool spatial, Direction pass) {
  const Model& m = b.job.model;
  const Parallel& p = b.job.parallel;
  const std::int64_t places = m.height * m.width;
  const auto exchange = [&](int tensors, double bytes) {
    if (!spatial || s.context == 1) return;
    tasks.memory("pack", 2 * bytes * tensors);
    tasks.collective("all-to-all", kContextSlot, CollectiveOp::kAllToAll, bytes * tensors, Category::kContext);
  };
  std::int64_t heads = s.heads, rows = 0, length = 0;
  if (spatial) {
    length = places;
    rows = s.batch * (p.plan.dsp > 1 ? ceil_div(m.frames, p.plan.dsp) : m.frames);
    heads = s.heads / p.plan.ulysses;
  } else {
    length = m.frames;
    rows = s.batch * ceil_div(places, s.context);
  }
  // Ulysses moves queries, keys and values there and the output back; backward moves their gradients the other way. DSP
  // moves the layer's input and its output (see switch_axis), so nothing is left to move here.
  const bool forward = pass == Direction::kForward;
  if (p.plan.dsp == 1) exchange(forward ? 3 : 1, s.part());
  tasks.kernel(spatial ? "spatial attention" : "temporal attention",
               b.device.seconds(cost::Attention{rows, heads, 0, length, length, s.head_dim, false, m.flash}, pass),
               KernelClass::kAttention);
  if (p.plan.dsp == 1) exchange(forward ? 1 : 3, s.part());
}

void switch_axis(Builder& b, Tasks& tasks, const DitSizes& s, bool spatial) {
  if (!spatial || b.job.parallel.plan.dsp == 1) return;
  tasks.memory("pack", 4 * s.state());
  tasks.collective("dynamic switch", kContextSlot, CollectiveOp::kAllToAll, 2 * s.state() / s.cut, Category::kContext);
}

// One block: modulated self-attention, cross-attention to the text, MLP. Bytes an element of the fused passes: norm and
// modulation 6, gate and residual 6; backward 12 and 8.
class DitBlock {
 public:
  DitBlock(Builder& builder, const DitSizes& sizes, const Attention3d* attention, bool spatial)
      : b_(builder), s_(sizes), attention_(attention), spatial_(spatial), linears_(builder, sizes.tokens) {}

  void forward(Tasks& tasks, bool again) const {
    const Model& m = b_.job.model;
    const double state = s_.state() / s_.cut, inner = s_.state() / static_cast<double>(s_.tensor);
    tasks.memory("norm and modulation", 6 * state);
    switch_axis(b_, tasks, s_, spatial_);
    linears_.column_forward(tasks, "query, key, value", 3 * s_.hidden, s_.hidden);
    tasks.memory("norm and rotary", 8 * inner);
    if (attention_ != nullptr) {
      attention_->forward(tasks, again);
    } else {
      axis_attention(b_, tasks, s_, spatial_, Direction::kForward);
    }
    linears_.row_forward(tasks, "attention out", s_.hidden, s_.hidden);
    switch_axis(b_, tasks, s_, spatial_);
    tasks.memory("gate and residual", 6 * state);
    if (m.text > 0) {
      linears_.column_forward(tasks, "cross query", s_.hidden, s_.hidden);
      tasks.gemm("cross key, value", s_.batch * m.text, 2 * s_.hidden / s_.tensor, s_.hidden);
      tasks.kernel("cross-attention", cross(Direction::kForward), KernelClass::kAttention);
      linears_.row_forward(tasks, "cross out", s_.hidden, s_.hidden);
      tasks.memory("residual", 6 * state);
    }
    tasks.memory("norm and modulation", 6 * state);
    linears_.column_forward(tasks, "mlp in", wide(), s_.hidden);
    tasks.memory("activation", 2.0 * static_cast<double>(s_.tokens) * s_.share(wide() + m.ffn));
    linears_.row_forward(tasks, "mlp out", s_.hidden, m.ffn);
    tasks.memory("gate and residual", 6 * state);
  }

  void backward(Tasks& tasks) const {
    const Model& m = b_.job.model;
    const double state = s_.state() / s_.cut, inner = s_.state() / static_cast<double>(s_.tensor);
    tasks.memory("gate and residual", 8 * state);
    linears_.row_backward(tasks, "mlp out", s_.hidden, m.ffn);
    tasks.memory("activation", 2.0 * static_cast<double>(s_.tokens) * s_.share(2 * wide() + m.ffn));
    linears_.column_backward(tasks, "mlp in", wide(), s_.hidden);
    tasks.memory("norm and modulation", 12 * state);
    if (m.text > 0) {
      linears_.row_backward(tasks, "cross out", s_.hidden, s_.hidden);
      tasks.kernel("cross-attention", cross(Direction::kBackward), KernelClass::kAttention);
      linears_.products_backward(tasks, "cross key, value", s_.batch * m.text, 2 * s_.hidden / s_.tensor, s_.hidden);
      linears_.column_backward(tasks, "cross query", s_.hidden, s_.hidden);
      tasks.memory("residual", 6 * state);
    }
    tasks.memory("gate and residual", 8 * state);
    switch_axis(b_, tasks, s_, spatial_);
    linears_.row_backward(tasks, "attention out", s_.hidden, s_.hidden);
    if (attention_ != nullptr) {
      attention_->backward(tasks);
    } else {
      axis_attention(b_, tasks, s_, spatial_, Direction::kBackward);
    }
    tasks.memory("norm and rotary", 12 * inner);
    linears_.column_backward(tasks, "query, key, value", 3 * s_.hidden, s_.hidden);
    switch_axis(b_, tasks, s_, spatial_);
    tasks.memory("norm and modulation", 12 * state);
  }

  double parameters() const {
    const Model& m = b_.job.model;
    const auto h = static_cast<double>(s_.hidden);
    return (h * h * (m.text > 0 ? 8 : 4) + h * static_cast<double>(m.ffn) * (m.gated ? 3 : 2)) /
               static_cast<double>(s_.tensor) +
           8 * h;
  }
  // Inputs of three norms and of three column products; queries, keys, values and output twice over, their all-to-all
  // copies, the MLP's inside.
  double kept() const {
    const Model& m = b_.job.model;
    const double inner = s_.state() / static_cast<double>(s_.tensor);
    double bytes = (m.text > 0 ? 12 : 8) * s_.state() / s_.cut + 8 * inner + (m.text > 0 ? 4 : 0) * inner;
    if (s_.context > 1) bytes += 8 * inner;
    return bytes +
           2.0 * static_cast<double>(s_.tokens) * static_cast<double>(wide() + m.ffn) / static_cast<double>(s_.tensor);
  }

 private:
  std::int64_t wide() const { return b_.job.model.ffn * (b_.job.model.gated ? 2 : 1); }
  double cross(Direction pass) const {
    return b_.device.seconds(
        cost::Attention{s_.batch, s_.heads, 0, s_.tokens / s_.batch, b_.job.model.text, s_.head_dim, false, true},
        pass);
  }

  Builder& b_;
  const DitSizes& s_;
  const Attention3d* attention_;
  bool spatial_;
  Linears linears_;
};

}  // namespace

LayerWork dit_layer(Builder& b, std::int64_t layer, const Coordinates& who) {
  const DitSizes s(b.job);
  const bool whole = b.job.model.attention == "3d";
  const Attention3d attention(b, s, layer_sparsity(b.job.model, layer), rank_sparsity(b.job, layer, who));
  LayerWork work;
  std::vector<DitBlock> blocks;
  if (whole) {
    blocks.emplace_back(b, s, &attention, false);
  } else {
    blocks.emplace_back(b, s, nullptr, true);
    blocks.emplace_back(b, s, nullptr, false);
  }
  Tasks ahead(b, static_cast<int>(layer)), back(b, static_cast<int>(layer));
  for (const DitBlock& block : blocks) block.forward(ahead, false);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (b.job.recompute == "full") block->forward(back, true);
    block->backward(back);
  }
  ahead.wait_for_host();
  back.wait_for_host();
  work.forward = std::move(ahead.list());
  work.backward = std::move(back.list());
  for (const DitBlock& block : blocks) {
    work.parameters += block.parameters();
    work.kept += block.kept();
    work.checkpoint += 2 * s.state() / s.cut;
  }
  work.working = 8 * s.state() + (whole ? attention.lists() : 0);
  return work;
}

}  // namespace reel::sim
