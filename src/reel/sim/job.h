// A training job: which model, how it is cut over devices, how its memory is spent. Read from job.toml or from a row of
// a table whose columns are the keys (docs/simulate.md has all of them).
//
// Everything has a default except the model's size. Switches are as Megatron-LM has them when nothing is said: off.
// What a file leaves open is filled in (finish): heads of 128, ffn, data parallelism from the number of devices, the
// batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reel/files/settings.h"
#include "reel/layout/degrees.h"

namespace reel::sim {

inline constexpr std::int64_t kMostSize = 1 << 24;  // products of two sizes fit into 64 bits with room

struct Model {
  std::string kind = "gpt";  // gpt | dit
  std::int64_t hidden = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, ffn = 0;
  std::int64_t head_dim = 0;  // 0: hidden / heads
  bool gated = false, tied = true, flash = true;
  std::int64_t vocab = 51200, sequence = 2048;
  std::int64_t experts = 0, top_k = 2;  // 0 experts: dense
  std::int64_t shared_ffn = 0;          // width of the expert that every token goes to; 0: there is none
  // dit: the clip in tokens, after patching
  std::int64_t frames = 0, height = 0, width = 0;
  std::int64_t text = 120;
  std::string attention = "3d";  // 3d | spatial-temporal (a layer is a spatial and a temporal block)
  std::vector<double> sparsity;  // share of keys left out: one for all layers, or one a layer; empty: dense
  std::vector<double>
      head_sparsity;        // one a head (and data-parallel copy), for the layer's mean, where layers are sparse
  bool selection = true;    // sparse: choosing keys is paid for
  std::int64_t group = 64;  // sparse: queries that share a list of keys

  std::int64_t attended() const { return heads * head_dim; }  // width of what attention gives, of all heads
  std::int64_t tokens() const { return kind == "dit" ? frames * height * width : sequence; }  // of a sample
  bool moe() const { return experts > 0; }
};

struct Parallel {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t pipeline = 1, interleave = 1;
  std::int64_t data = 0;  // 0: what is left of devices
  std::int64_t context = 1;
  std::string context_kind = "ring";  // ring | all_gather
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 0;  // ranks that share each expert: 1 or tensor; 0: tensor
  std::int64_t zero = 0;           // 0 | 1 | 3
  layout::Degrees plan;            // dit: how a clip is shared
  std::int64_t devices = 0;        // 0: the product of the degrees
};

struct Job {
  Model model;
  Parallel parallel;
  std::int64_t global_batch = 0, micro_batch = 1;  // samples
  std::string recompute = "none";                  // none | selective | full
  std::string precision = "bf16";                  // bf16 | fp8
  std::string gradients = "fp32";                  // fp32 | bf16: as they are added up and reduced
  bool overlap_gradients = false, overlap_parameters = false, overlap_tensor = false;
  double bucket = 160;  // MiB of gradients that leave together
  std::vector<std::int64_t> slow_ranks, slow_links;
  std::vector<double> slow_rank_factors, slow_link_factors;

  std::int64_t devices() const { return parallel.tensor * parallel.context * parallel.pipeline * parallel.data; }
  std::int64_t micro_batches() const { return global_batch / (micro_batch * parallel.data); }
  double tokens_per_step() const { return static_cast<double>(global_batch) * static_cast<double>(model.tokens()); }
  bool sequence_parallel() const { return parallel.sequence_parallel && parallel.tensor > 1; }
  // Experts may be spread over tensor ranks as well, each of them whole: Megatron's parallel folding.
  bool whole_experts() const { return parallel.tensor > 1 && parallel.expert_tensor == 1; }
  std::int64_t expert_ranks() const {  // of a stage, that an expert group is taken out of
    return parallel.data * parallel.context * (whole_experts() ? parallel.tensor : 1);
  }
};

void visit(Settings& settings, Job& job);

// What is wrong with a job, at which key.
struct Problem {
  std::string key, what, hint;
};

// Fills in what was left open, then looks for the first thing that cannot be.
std::optional<Problem> finish(Job& job);

// Reads, finishes and refuses unknown keys; an Error names file, line and key. Keys that are not there keep what
// `defaults` holds (simulate.h has a cluster's).
Job read_job(const Toml& toml, Job defaults = {});
Job load_job(const std::string& path, const std::vector<std::string>& overrides = {}, Job defaults = {});

// One line for people: "gpt, 96 layers of 12288, 1024 devices = 8 tensor x 8 pipeline x 16 data".
std::string describe(const Job& job);

}  // namespace reel::sim
