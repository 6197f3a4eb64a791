#include <algorithm>

#include "reel/sim/experts.h"
#include "reel/sim/layers.h"

namespace reel::sim {

namespace {

using cost::CollectiveOp;
using cost::Direction;
using cost::KernelClass;

// Sizes of one rank's part of a micro-batch.
struct Sizes {
  explicit Sizes(const Job& job)
      : batch(job.micro_batch),
        length(job.model.sequence / job.parallel.context),
        tokens(batch * length),
        tensor(job.parallel.tensor),
        hidden(job.model.hidden),
        head_dim(job.model.head_dim),
        heads(job.model.heads / tensor),
        kv_heads(std::max<std::int64_t>(1, job.model.kv_heads / tensor)),
        qkv((heads + 2 * kv_heads) * head_dim * tensor),
        vocab((job.model.vocab + 128 * tensor - 1) / (128 * tensor) * (128 * tensor)),
        cut(static_cast<double>(job.sequence_parallel() ? tensor : 1)) {}

  std::int64_t batch, length, tokens, tensor, hidden, head_dim, heads, kv_heads;
  std::int64_t qkv;    // outputs of the first product, of all tensor ranks
  std::int64_t vocab;  // padded as Megatron pads it
  double cut;          // what divides norms and residuals

  double state() const { return static_cast<double>(tokens) * static_cast<double>(hidden); }  // elements
  double part(std::int64_t whole) const {  // of what the tensor ranks share
    return static_cast<double>(whole) / static_cast<double>(tensor);
  }
  double kv_bytes() const {
    return 2.0 * 2 * static_cast<double>(tokens) * static_cast<double>(kv_heads) * static_cast<double>(head_dim);
  }
};

cost::Attention attention_of(const Job& job, const Sizes& s) {
  return {s.batch, s.heads, s.kv_heads, s.length, s.length, s.head_dim, true, job.model.flash};
}

// Keys and values go round while the part that is here is attended to. Each rank has an early and a late piece, so that
// of every other rank's keys half the pairs are seen. Backward carries the gradients of keys and values as well.
void ring(Builder& b, Tasks& tasks, const Sizes& s, Direction pass) {
  const double bytes = s.kv_bytes() * (pass == Direction::kForward ? 1 : 2);
  cost::Attention part = attention_of(b.job, s);
  for (std::int64_t step = 0; step < b.job.parallel.context; ++step) {
    const bool more = step + 1 < b.job.parallel.context;
    if (more) {
      tasks.send("send keys and values", kRingOut, bytes, Stream::kRingSend,
                 step == 0 ? bit(Stream::kCompute) : bit(Stream::kRingReceive));
    }
    if (step > 0) {
      part.causal = false;
      part.keys = s.length / 2;
      tasks.wait_next(bit(Stream::kRingReceive));
    }
    tasks.kernel("attention", b.device.seconds(part, pass), KernelClass::kAttention);
    if (more) tasks.receive("receive keys and values", kRingIn, Stream::kRingReceive, 0);
  }
}

void attention(Builder& b, Tasks& tasks, const Sizes& s, Direction pass) {
  const std::int64_t context = b.job.parallel.context;
  if (context == 1) {
    tasks.kernel("attention", b.device.seconds(attention_of(b.job, s), pass), KernelClass::kAttention);
  } else if (b.job.parallel.context_kind == "ring") {
    ring(b, tasks, s, pass);
  } else {
    const double bytes = s.kv_bytes() * static_cast<double>(context);
    tasks.collective("gather keys and values", kContextSlot, CollectiveOp::kAllGather, bytes, Category::kContext);
    cost::Attention part = attention_of(b.job, s);  // an early and a late piece see half of all keys
    part.causal = false;
    part.keys = std::max<std::int64_t>(1, b.job.model.sequence / 2);
    tasks.kernel("attention", b.device.seconds(part, pass), KernelClass::kAttention);
    if (pass == Direction::kBackward)
      tasks.collective("scatter gradients of keys and values", kContextSlot, CollectiveOp::kReduceScatter, bytes,
                       Category::kContext);
  }
}

// Bytes moved for each element by the fused passes, in 2-byte values with 1-byte masks. Forward: norm 4; bias, dropout
// and residual 7. Backward: norm 6 and 4 more for the gradients of its weights; dropout and residual 7.
void forward(Builder& b, Tasks& tasks, const Sizes& s, const Linears& linears) {
  const Model& m = b.job.model;
  const double state = s.state() / s.cut;
  tasks.memory("norm", 4 * state);
  linears.column_forward(tasks, "query, key, value", s.qkv, s.hidden);
  tasks.memory("bias or rotary", 4.0 * static_cast<double>(s.tokens) * s.part(s.qkv));
  attention(b, tasks, s, Direction::kForward);
  linears.row_forward(tasks, "attention out", s.hidden, m.attended());
  tasks.memory("dropout and residual", 7 * state);
  tasks.memory("norm", 4 * state);
  if (m.moe()) {
    ExpertLayer(b, linears, s.tokens).forward(tasks);
  } else {
    const std::int64_t wide = m.ffn * (m.gated ? 2 : 1);
    linears.column_forward(tasks, "mlp in", wide, s.hidden);
    tasks.memory("activation", 2.0 * static_cast<double>(s.tokens) * s.part(wide + m.ffn));
    linears.row_forward(tasks, "mlp out", s.hidden, m.ffn);
  }
  tasks.memory("dropout and residual", 7 * state);
}

void backward(Builder& b, Tasks& tasks, const Sizes& s, const Linears& linears) {
  const Model& m = b.job.model;
  const double state = s.state() / s.cut;
  tasks.memory("dropout and residual", 7 * state);
  if (m.moe()) {
    ExpertLayer(b, linears, s.tokens).backward(tasks);
  } else {
    const std::int64_t wide = m.ffn * (m.gated ? 2 : 1);
    linears.row_backward(tasks, "mlp out", s.hidden, m.ffn);
    tasks.memory("activation", 2.0 * static_cast<double>(s.tokens) * s.part(2 * wide + m.ffn));
    linears.column_backward(tasks, "mlp in", wide, s.hidden);
  }
  tasks.memory("norm", 10 * state);
  tasks.memory("dropout and residual", 7 * state);
  linears.row_backward(tasks, "attention out", s.hidden, m.attended());
  if (b.job.recompute == "selective" && !m.flash) attention(b, tasks, s, Direction::kForward);
  attention(b, tasks, s, Direction::kBackward);
  tasks.memory("bias or rotary", 4.0 * static_cast<double>(s.tokens) * s.part(s.qkv));
  linears.column_backward(tasks, "query, key, value", s.qkv, s.hidden);
  tasks.memory("norm", 10 * state);
}

// What backward needs of a layer (Korthikanti et al. 2022, generalised): inputs of norms and of column products and two
// masks, cut by sequence parallelism; queries, keys, values, both inner products' outputs, cut by tensor parallelism.
double kept_bytes(Builder& b, const Sizes& s, const Linears& linears) {
  const Job& job = b.job;
  const Model& m = job.model;
  const double tokens = static_cast<double>(s.tokens);
  double bytes = 10 * s.state() / s.cut;
  bytes += 2 * tokens * s.part(s.qkv + m.attended());
  bytes += m.moe() ? ExpertLayer(b, linears, s.tokens).kept() : 2 * tokens * s.part(m.ffn) * (m.gated ? 3 : 2);
  if (m.flash) {
    bytes += 4 * tokens * static_cast<double>(s.heads);
  } else if (job.recompute != "selective") {
    bytes += 5 * tokens * static_cast<double>(s.heads) * static_cast<double>(m.sequence);
  }
  return bytes;
}

}  // namespace

LayerWork gpt_layer(Builder& b) {
  const Model& m = b.job.model;
  const Sizes s(b.job);
  const Linears linears(b, s.tokens);
  LayerWork work;
  Tasks ahead(b, 0), back(b, 0);
  forward(b, ahead, s, linears);
  if (b.job.recompute == "full") back.append(ahead);
  backward(b, back, s, linears);
  ahead.wait_for_host(!m.moe());
  back.wait_for_host(!m.moe());
  work.forward = std::move(ahead.list());
  work.backward = std::move(back.list());
  const auto hidden = static_cast<double>(s.hidden);
  work.parameters = hidden * s.part(s.qkv + m.attended()) + 4 * hidden;
  if (m.moe()) {
    const ExpertLayer experts(b, linears, s.tokens);
    work.expert_parameters = experts.parameters();
    work.parameters += experts.shared_parameters();
    work.working = experts.working();
  } else {
    work.parameters += hidden * s.part(m.ffn) * (m.gated ? 3 : 2);
    work.working = 2 * linears.activation() + 4.0 * static_cast<double>(s.tokens) * s.part(m.ffn);
  }
  work.kept = kept_bytes(b, s, linears);
  work.checkpoint = 2 * s.state() / s.cut;
  return work;
}

LayerWork gpt_embedding(Builder& b) {
  const Sizes s(b.job);
  const Linears linears(b, s.tokens);
  LayerWork work;
  Tasks ahead(b, -1);
  ahead.memory("embedding", 4 * s.state());
  linears.sum_forward(ahead);
  ahead.memory("dropout", 5 * s.state() / s.cut);
  Tasks back(b, -1);
  back.memory("dropout", 5 * s.state() / s.cut);
  linears.gather_backward(back);
  back.memory("embedding", 6 * s.state());
  work.forward = std::move(ahead.list());
  work.backward = std::move(back.list());
  work.parameters = s.part(s.vocab) * static_cast<double>(s.hidden);
  work.kept = work.checkpoint = s.state() / s.cut;
  return work;
}

LayerWork gpt_head(Builder& b) {
  const Sizes s(b.job);
  const Linears linears(b, s.tokens);
  const std::int64_t columns = s.vocab / s.tensor;
  const double logits = static_cast<double>(s.tokens) * static_cast<double>(columns);
  LayerWork work;
  Tasks ahead(b, -1);
  ahead.memory("norm", 4 * s.state() / s.cut);
  linears.gather_forward(ahead);
  ahead.gemm("logits", s.tokens, columns, s.hidden, 0, false);
  // Parallel cross-entropy in f32: converted and its maximum (2 + 4 + 4 bytes), exponentials and their sum (8); the
  // maximum, the sum and the logit of the target are exchanged.
  ahead.memory("cross-entropy", 18 * logits);
  for (int i = 0; i < 3; ++i) {
    ahead.collective("all-reduce of the loss", kTensorSlot, CollectiveOp::kAllReduce,
                     4.0 * static_cast<double>(s.tokens), Category::kTensor);
  }
  Tasks back(b, -1);
  back.memory("cross-entropy", 10 * logits);
  linears.column_backward(back, "logits", s.vocab, s.hidden, false);
  back.memory("norm", 10 * s.state() / s.cut);
  work.forward = std::move(ahead.list());
  work.backward = std::move(back.list());
  work.parameters = static_cast<double>(columns) * static_cast<double>(s.hidden);
  work.kept = work.checkpoint = 6 * logits + 4 * s.state() / s.cut;
  return work;
}

}  // namespace reel::sim
