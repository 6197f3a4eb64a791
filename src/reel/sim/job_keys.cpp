#include <fmt/format.h>

#include "reel/sim/job.h"

namespace reel::sim {

void visit(Settings& s, Job& job) {
  Model& m = job.model;
  s.section("model", "the model's size; hidden and layers (dit: frames, height, width) have no default");
  s.choice("model.kind", m.kind, {"gpt", "dit"}, "transformer of text, or of video");
  s.integer("model.hidden", m.hidden, 0, kMostSize, "width of the residual stream");
  s.integer("model.layers", m.layers, 0, 1 << 16, "transformer layers");
  s.integer("model.heads", m.heads, 0, kMostSize, "attention heads; 0: of 128 (or 64) each");
  s.integer("model.kv_heads", m.kv_heads, 0, kMostSize, "heads of keys and values; 0: as many as heads");
  s.integer("model.head_dim", m.head_dim, 0, kMostSize, "gpt: width of a head; 0: hidden / heads");
  s.integer("model.ffn", m.ffn, 0, kMostSize, "width of the MLP; 0: 4 hidden, gated 8/3 hidden");
  s.boolean("model.gated", m.gated, "MLP with a gate (SwiGLU, GeGLU)");
  s.boolean("model.flash", m.flash, "fused attention; false: scores go through memory");
  s.integer("model.vocab", m.vocab, 1, kMostSize, "gpt: words");
  s.boolean("model.tied", m.tied, "gpt: input and output embedding are one");
  s.integer("model.sequence", m.sequence, 1, kMostSize, "gpt: tokens of a sample");
  s.integer("model.experts", m.experts, 0, 1 << 16, "gpt: experts of each MLP, ffn wide each; 0: dense");
  s.integer("model.top_k", m.top_k, 1, 1 << 16, "gpt: experts that a token goes to");
  s.integer("model.shared_ffn", m.shared_ffn, 0, kMostSize,
            "gpt: width of the expert that every token goes to; 0: there is none");
  s.integer("model.frames", m.frames, 0, kMostSize, "dit: frames of a clip, in tokens");
  s.integer("model.height", m.height, 0, kMostSize, "dit: height, in tokens");
  s.integer("model.width", m.width, 0, kMostSize, "dit: width, in tokens");
  s.integer("model.text", m.text, 0, kMostSize, "dit: tokens of the text; 0: no cross-attention");
  s.choice("model.attention", m.attention, {"3d", "spatial-temporal"},
           "dit: a layer attends to the clip, or is a spatial and a temporal block");
  s.numbers("model.sparsity", m.sparsity, 0,
            "dit: share of keys left out, for all layers or one a layer; empty: dense");
  s.numbers("model.head_sparsity", m.head_sparsity, 0, "dit: the same, one a head, in the sparse layers");
  s.boolean("model.selection", m.selection, "dit, sparse: choosing keys (predictor, scores, largest) is paid for");
  s.integer("model.group", m.group, 1, 4096, "dit, sparse: queries that share a list of keys");
  Parallel& p = job.parallel;
  s.section("parallel", "how the job is cut; the product tensor x pipeline x context x data is the number of devices");
  s.integer("parallel.tensor", p.tensor, 1, kMostSize, "ranks that share each layer");
  s.boolean("parallel.sequence_parallel", p.sequence_parallel, "norms and residuals are cut by tensor, too");
  s.integer("parallel.pipeline", p.pipeline, 1, 1 << 16, "stages");
  s.integer("parallel.interleave", p.interleave, 1, 1 << 16, "chunks of layers a stage; 1: plain 1F1B");
  s.integer("parallel.data", p.data, 0, kMostSize, "copies of the model; 0: what is left of devices");
  s.integer("parallel.context", p.context, 1, kMostSize, "gpt: ranks that share a sequence");
  s.choice("parallel.context_kind", p.context_kind, {"ring", "all_gather"}, "gpt: how keys and values travel");
  s.integer("parallel.expert", p.expert, 1, kMostSize, "gpt: ranks that share the experts, out of data x context");
  s.integer(
      "parallel.expert_tensor", p.expert_tensor, 0, kMostSize,
      "gpt: ranks that share each expert, 1 or tensor; with 1, expert is out of tensor x data x context; 0: tensor");
  s.integer("parallel.zero", p.zero, 0, 3, "shared over data: 0 nothing, 1 optimizer, 3 weights and gradients, too");
  layout::visit_degrees(s, "parallel.plan", p.plan, "dit: ranks that share a clip, \"ulysses=2,ring=4\" or \"dsp=8\"");
  s.integer("parallel.devices", p.devices, 0, kMostSize, "all of them; 0: the product");
  s.section("batch", "samples");
  s.integer("batch.global", job.global_batch, 0, Settings::kMany / kMostSize,
            "of a step; 0: one micro-batch for each copy, with a pipeline 8 for each stage");
  s.integer("batch.micro", job.micro_batch, 1, kMostSize, "of a pass");
  s.section("memory", "what is kept and how");
  s.choice("memory.recompute", job.recompute, {"none", "selective", "full"},
           "run again in backward: attention's inside, or layers");
  s.choice("memory.precision", job.precision, {"bf16", "fp8"}, "of matrix products");
  s.choice("memory.gradients", job.gradients, {"fp32", "bf16"}, "as gradients are added up and reduced");
  s.section("overlap", "what communication hides behind compute");
  s.boolean("overlap.gradients", job.overlap_gradients, "buckets leave during the last backward pass");
  s.boolean("overlap.parameters", job.overlap_parameters, "shards are gathered while layers before them run");
  s.boolean("overlap.tensor", job.overlap_tensor, "tensor collectives are cut into pieces behind their products");
  s.number("overlap.bucket", job.bucket, 1, 1e6, "MiB of gradients in a bucket");
  s.section("slow", "ranks and links that are slower than the others");
  s.integers("slow.ranks", job.slow_ranks, 0, "ranks that compute more slowly");
  s.numbers("slow.rank_factors", job.slow_rank_factors, 0, "how many times longer, one for each");
  s.integers("slow.links", job.slow_links, 0, "ranks whose way to the others is slow");
  s.numbers("slow.link_factors", job.slow_link_factors, 0, "how many times longer, one for each");
}

std::string describe(const Job& job) {
  const Model& m = job.model;
  const Parallel& p = job.parallel;
  std::string text = fmt::format("{}, {} layers of {}, {} tokens; {} devices = tensor {} x pipeline {}", m.kind,
                                 m.layers, m.hidden, m.tokens(), job.devices(), p.tensor, p.pipeline);
  if (p.interleave > 1) text += fmt::format(" (interleave {})", p.interleave);
  if (p.context > 1)
    text += fmt::format(" x context {}{}", p.context, p.plan.ranks() == 1 ? "" : " (" + p.plan.text() + ")");
  text += fmt::format(" x data {}", p.data);
  if (p.expert > 1) text += fmt::format(", expert {}", p.expert);
  return text + fmt::format(", zero {}; batch {} in {} micro-batches of {}", p.zero, job.global_batch,
                            job.micro_batches(), job.micro_batch);
}

}  // namespace reel::sim
