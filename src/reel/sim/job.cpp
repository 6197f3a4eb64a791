#include "reel/sim/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/files/nearest.h"

namespace reel::sim {

namespace {

constexpr std::int64_t kMostTokens = 1 << 30;  // of a micro-batch
constexpr std::int64_t kMostPasses = 1 << 21;  // each is a step of a rank's program

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::optional<Problem> divides(const std::string& key, std::int64_t divisor, const std::string& what,
                               std::int64_t whole) {
  if (whole % divisor == 0) return std::nullopt;
  std::vector<std::int64_t> ways;
  for (std::int64_t d = 1; d <= whole && ways.size() < 12; ++d) {
    if (whole % d == 0) ways.push_back(d);
  }
  return Problem{key, fmt::format("{} = {} does not divide {}, {}", key, divisor, what, whole),
                 fmt::format("use one of {}", fmt::join(ways, ", "))};
}

std::optional<Problem> fill_model(Model& m) {
  if (m.hidden == 0) return Problem{"model.hidden", "model.hidden is missing", "the model's size has no default"};
  if (m.layers == 0) return Problem{"model.layers", "model.layers is missing", "the model's size has no default"};
  if (m.heads == 0) {
    if (m.hidden % 64 != 0) {
      return Problem{"model.heads",
                     fmt::format("model.heads is missing, and hidden {} is not cut into heads of 128 or 64", m.hidden),
                     "say how many heads there are"};
    }
    m.heads = m.hidden % 128 == 0 ? m.hidden / 128 : m.hidden / 64;
  }
  if (m.head_dim == 0 || m.kind == "dit") {
    if (auto p = divides("model.heads", m.heads, "model.hidden", m.hidden)) return p;
    if (m.head_dim != 0 && m.head_dim != m.hidden / m.heads) {
      return Problem{"model.head_dim",
                     fmt::format("model.head_dim = {}: a dit's heads are hidden / heads wide", m.head_dim),
                     "leave it out"};
    }
    m.head_dim = m.hidden / m.heads;
  }
  if (m.heads > kMostSize / m.head_dim) {
    return Problem{"model.head_dim", fmt::format("{} heads of {}", m.heads, m.head_dim),
                   fmt::format("together at most {}", kMostSize)};
  }
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (auto p = divides("model.kv_heads", m.kv_heads, "model.heads", m.heads)) return p;
  if (m.ffn == 0) m.ffn = m.gated ? round_up(8 * m.hidden / 3, 256) : 4 * m.hidden;
  if (m.moe() && m.top_k > m.experts) {
    return Problem{"model.top_k", fmt::format("model.top_k = {} is more than model.experts = {}", m.top_k, m.experts),
                   "a token goes to top_k different experts"};
  }
  if (m.shared_ffn > 0 && !m.moe()) {
    return Problem{"model.shared_ffn", fmt::format("model.shared_ffn = {}, but model.experts is 0", m.shared_ffn),
                   "set model.experts; the width of a dense MLP is model.ffn"};
  }
  if (m.kind != "dit") return std::nullopt;
  for (const auto& [name, size] : {std::pair("frames", m.frames), {"height", m.height}, {"width", m.width}}) {
    if (size == 0) {
      return Problem{fmt::format("model.{}", name), fmt::format("model.{} is missing", name),
                     "a dit's clip has frames, height and width in tokens"};
    }
  }
  if (static_cast<double>(m.frames) * static_cast<double>(m.height) * static_cast<double>(m.width) > kMostTokens) {
    return Problem{"model.frames", fmt::format("a clip of {} x {} x {} tokens", m.frames, m.height, m.width),
                   fmt::format("use at most {} tokens", kMostTokens)};
  }
  if (m.moe())
    return Problem{"model.experts", "model.experts: a dit has none", "remove the key, or use kind = \"gpt\""};
  const auto layers = sized(m.layers);
  if (m.sparsity.size() > 1 && m.sparsity.size() != layers) {
    return Problem{"model.sparsity",
                   fmt::format("model.sparsity has {} numbers for {} layers", m.sparsity.size(), layers),
                   "give one number for all layers, or one a layer"};
  }
  for (const auto* list : {&m.sparsity, &m.head_sparsity}) {
    for (const double s : *list) {
      if (!(s >= 0 && s < 1)) {
        return Problem{list == &m.sparsity ? "model.sparsity" : "model.head_sparsity",
                       fmt::format("a sparsity of {}", s), "it is the share of keys left out: 0 to below 1, e.g. 0.9"};
      }
    }
  }
  if (m.attention == "spatial-temporal" && !(m.sparsity.empty() && m.head_sparsity.empty())) {
    return Problem{"model.sparsity", "model.sparsity needs attention = \"3d\"", "spatial-temporal attention is dense"};
  }
  return std::nullopt;
}

std::optional<Problem> fill_parallel(Job& job) {
  Parallel& p = job.parallel;
  const Model& m = job.model;
  const bool dit = m.kind == "dit";
  const std::string plan = p.plan.text();
  if (!plan.empty() && !dit) {
    return Problem{"parallel.plan", "parallel.plan is for kind = \"dit\"", "a gpt is cut by parallel.context"};
  }
  try {
    layout::refuse(p.plan, {"gather", "auto", "ulysses-both"}, "the simulator");
  } catch (const Error& error) {
    return Problem{"parallel.plan", error.what(), error.hint()};
  }
  if (p.plan.keys_inside) {
    return Problem{"parallel.plan",
                   fmt::format("the plan \"{}\": the simulator has Ulysses over neighbouring ranks", plan),
                   fmt::format("use \"ulysses={},ring={}\"", p.plan.ulysses, p.plan.ring)};
  }
  if (dit) {
    const std::int64_t planned = p.plan.ranks();
    if (p.context != 1 && p.context != planned) {
      return Problem{"parallel.context",
                     fmt::format("parallel.context = {}, but parallel.plan is {}", p.context, planned),
                     "a dit is cut by parallel.plan alone"};
    }
    p.context = planned;
    if (p.plan.dsp > 1 && m.attention != "spatial-temporal") {
      return Problem{"parallel.plan",
                     fmt::format("parallel.plan = \"{}\" needs separate spatial and temporal attention", plan),
                     "use \"ulysses=..,ring=..\" with attention = \"3d\""};
    }
    if (p.plan.ring > 1 && m.attention == "spatial-temporal") {
      return Problem{"parallel.plan", fmt::format("parallel.plan = \"{}\": ring needs attention = \"3d\"", plan),
                     "use \"dsp=..\" or \"ulysses=..\" with spatial-temporal attention"};
    }
  }
  if (static_cast<double>(p.tensor) * static_cast<double>(p.pipeline) * static_cast<double>(p.context) *
          static_cast<double>(std::max<std::int64_t>(1, p.data)) >
      kMostSize) {
    return Problem{"parallel.tensor",
                   fmt::format("tensor {} x pipeline {} x context {} x data {} are more than {} devices", p.tensor,
                               p.pipeline, p.context, p.data, kMostSize),
                   "use smaller degrees"};
  }
  const std::int64_t inner = p.tensor * p.pipeline * p.context;
  if (p.data == 0) {
    if (p.devices % inner != 0) {
      return Problem{"parallel.devices",
                     fmt::format("{} devices cannot be cut into tensor {} x pipeline {} x context {} = {}", p.devices,
                                 p.tensor, p.pipeline, p.context, inner),
                     "the product of the degrees must divide the number of devices"};
    }
    p.data = std::max<std::int64_t>(1, p.devices / inner);
  }
  if (p.devices == 0) p.devices = inner * p.data;
  if (p.devices != inner * p.data) {
    return Problem{"parallel.devices",
                   fmt::format("tensor {} x pipeline {} x context {} x data {} is {}, not {} devices", p.tensor,
                               p.pipeline, p.context, p.data, inner * p.data, p.devices),
                   "leave parallel.data out: it becomes what is left"};
  }
  if (p.devices > kMostSize) {
    return Problem{"parallel.devices", fmt::format("{} devices are more than {}", p.devices, kMostSize), "use fewer"};
  }
  return std::nullopt;
}

std::optional<Problem> check_cuts(const Job& job) {
  const Model& m = job.model;
  const Parallel& p = job.parallel;
  if (auto x = divides("parallel.tensor", p.tensor, "model.heads", m.heads)) return x;
  if (auto x = divides("parallel.tensor", p.tensor, "model.ffn", m.ffn)) return x;
  if (m.kv_heads % p.tensor != 0 && p.tensor % m.kv_heads != 0)
    return divides("parallel.tensor", p.tensor, "model.kv_heads", m.kv_heads);
  if (p.pipeline == 1 && p.interleave > 1) {
    return Problem{"parallel.interleave", fmt::format("parallel.interleave = {} without a pipeline", p.interleave),
                   "set parallel.pipeline to 2 or more, or interleave to 1"};
  }
  if (m.layers % (p.pipeline * p.interleave) != 0) {
    return Problem{p.interleave > 1 ? "parallel.interleave" : "parallel.pipeline",
                   fmt::format("model.layers = {} is not a multiple of parallel.pipeline {} x parallel.interleave {}",
                               m.layers, p.pipeline, p.interleave),
                   "every stage gets the same number of layers"};
  }
  if (m.kind == "dit") {
    if (auto x = divides("parallel.tensor", p.tensor * p.plan.ulysses, "model.heads", m.heads)) {
      x->key = "parallel.plan";
      x->what =
          fmt::format("tensor {} x ulysses {} does not divide model.heads, {}", p.tensor, p.plan.ulysses, m.heads);
      return x;
    }
  } else {
    // a causal sequence is cut into 2 x context pieces, so that every rank has an early and a late one
    const std::int64_t pieces = p.context == 1 ? 1 : 2 * p.context;
    if (m.sequence % pieces != 0) {
      return Problem{
          "parallel.context",
          fmt::format("model.sequence = {} is not a multiple of 2 x parallel.context = {}", m.sequence, pieces),
          "each rank takes an early and a late piece of the sequence"};
    }
    if (job.sequence_parallel()) {
      if (auto x =
              divides("parallel.tensor", p.tensor, "the tokens of a rank", job.micro_batch * m.sequence / p.context))
        return x;
    }
  }
  if (p.expert > 1 && !m.moe()) {
    return Problem{"parallel.expert", fmt::format("parallel.expert = {}, but model.experts is 0", p.expert),
                   "set model.experts"};
  }
  if (m.moe()) {
    if (auto x = divides("parallel.expert", p.expert, "model.experts", m.experts)) return x;
    const std::int64_t each = p.expert_tensor == 0 ? p.tensor : p.expert_tensor;
    if (each != 1 && each != p.tensor) {
      return Problem{"parallel.expert_tensor", fmt::format("parallel.expert_tensor = {}", p.expert_tensor),
                     fmt::format("use 1 (whole experts) or parallel.tensor = {}", p.tensor)};
    }
    if (job.whole_experts() && !job.sequence_parallel()) {
      return Problem{"parallel.expert_tensor", "parallel.expert_tensor = 1 without sequence parallelism",
                     "set parallel.sequence_parallel = true: each tensor rank then sends tokens of its own"};
    }
    if (auto x = divides("parallel.expert", p.expert,
                         job.whole_experts() ? "tensor x data x context" : "data x context", job.expert_ranks()))
      return x;
    if (auto x = divides("parallel.tensor", p.tensor, "model.shared_ffn", m.shared_ffn)) return x;
  }
  return std::nullopt;
}

std::optional<Problem> fill_batch(Job& job) {
  const Parallel& p = job.parallel;
  if (static_cast<double>(job.micro_batch) * static_cast<double>(job.model.tokens()) > kMostTokens) {
    return Problem{"batch.micro", fmt::format("a micro-batch of {} x {} tokens", job.micro_batch, job.model.tokens()),
                   fmt::format("use at most {} tokens", kMostTokens)};
  }
  const std::int64_t slice = job.micro_batch * p.data;
  if (job.global_batch == 0) job.global_batch = slice * (p.pipeline == 1 ? 1 : 8 * p.pipeline);
  if (job.global_batch % slice != 0) {
    return Problem{"batch.global",
                   fmt::format("batch.global = {} is not a multiple of batch.micro {} x parallel.data {} = {}",
                               job.global_batch, job.micro_batch, p.data, slice),
                   fmt::format("use {} or {}", std::max(slice, job.global_batch / slice * slice),
                               round_up(job.global_batch, slice))};
  }
  const double passes = static_cast<double>(job.micro_batches()) * static_cast<double>(p.interleave);
  if (passes > kMostPasses) {
    return Problem{"batch.global",
                   fmt::format("batch.global = {} makes {:.0f} passes of a rank", job.global_batch, passes),
                   fmt::format("at most {}: use a larger batch.micro or parallel.data", kMostPasses)};
  }
  if (p.interleave > 1 && job.micro_batches() % p.pipeline != 0) {
    return Problem{"parallel.interleave",
                   fmt::format("{} micro-batches are not a multiple of parallel.pipeline = {}, as interleaving needs",
                               job.micro_batches(), p.pipeline),
                   "change batch.global or batch.micro, or set interleave to 1"};
  }
  return std::nullopt;
}

std::optional<Problem> check_head_sparsity(const Job& job) {
  const auto numbers = static_cast<std::int64_t>(job.model.head_sparsity.size());
  if (numbers == 0 || numbers == job.model.heads || numbers == job.model.heads * job.parallel.data) return std::nullopt;
  return Problem{"model.head_sparsity",
                 fmt::format("model.head_sparsity has {} numbers for {} heads and data {}", numbers, job.model.heads,
                             job.parallel.data),
                 "give one number a head, or one a head for each of the data-parallel copies in turn"};
}

std::optional<Problem> check_slow(const Job& job) {
  for (const auto& [key, who, factors] : {std::tuple("slow.ranks", &job.slow_ranks, &job.slow_rank_factors),
                                          std::tuple("slow.links", &job.slow_links, &job.slow_link_factors)}) {
    if (factors->size() != who->size()) {
      return Problem{key, fmt::format("{} names {} ranks, its factors are {}", key, who->size(), factors->size()),
                     "give one factor for each"};
    }
    std::set<std::int64_t> seen;
    for (const std::int64_t rank : *who) {
      if (rank < 0 || rank >= job.devices())
        return Problem{key, fmt::format("{}: there is no rank {}", key, rank),
                       fmt::format("ranks are 0 to {}", job.devices() - 1)};
      if (!seen.insert(rank).second)
        return Problem{key, fmt::format("{} names rank {} twice", key, rank), "give each rank one factor"};
    }
    for (const double factor : *factors) {
      if (!(factor >= 1 && factor <= 1000))
        return Problem{key, fmt::format("{}: a factor of {}", key, factor),
                       "it is how many times longer things take: 1 or more"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Problem> finish(Job& job) {
  if (job.parallel.zero == 2) return Problem{"parallel.zero", "parallel.zero = 2", "use 0, 1 or 3"};
  if (auto p = fill_model(job.model)) return p;
  if (auto p = fill_parallel(job)) return p;
  if (auto p = check_cuts(job)) return p;
  if (auto p = fill_batch(job)) return p;
  if (auto p = check_head_sparsity(job)) return p;
  return check_slow(job);
}

Job read_job(const Toml& toml, Job job) {
  Settings settings(toml);
  visit(settings, job);
  toml.check_all_used();
  if (const auto problem = finish(job))
    throw Error(fmt::format("{}: {}", toml.where(problem->key), problem->what), problem->hint);
  return job;
}

Job load_job(const std::string& path, const std::vector<std::string>& overrides, Job defaults) {
  Toml toml = Toml::load(path);
  for (const std::string& assignment : overrides) toml.set(assignment);
  return read_job(toml, std::move(defaults));
}

}  // namespace reel::sim
