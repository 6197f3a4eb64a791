#include "reel/app/plan.h"

#include <algorithm>
#include <memory>

#include "reel/app/app.h"
#include "reel/base/error.h"

namespace reel::app {

plan::Options planner_options(const PlanOptions& options) {
  constexpr int kMostRanks = 4096;
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(fmt::format("--ranks is {}", options.ranks), fmt::format("use a number from 1 to {}", kMostRanks));
  plan::Options out;
  const auto degree = [](const char* option, int given) {
    if (given < 1 && given != kNotGiven) throw Error(fmt::format("{} is {}", option, given), "use at least 1");
    return std::max(given, 0);
  };
  out.ulysses = degree("--ulysses", options.ulysses), out.ring = degree("--ring", options.ring);
  if (out.ulysses == 0 && out.ring > 0) out.ulysses = options.ranks % out.ring == 0 ? options.ranks / out.ring : -1;
  if (out.ring == 0 && out.ulysses > 0) out.ring = options.ranks % out.ulysses == 0 ? options.ranks / out.ulysses : -1;
  if (std::int64_t{out.ulysses} * out.ring != options.ranks && (out.ulysses != 0 || out.ring != 0)) {
    std::string pairs;
    for (int u = 1; u <= options.ranks; ++u) {
      if (options.ranks % u == 0) pairs += fmt::format("{}{} x {}", pairs.empty() ? "" : ", ", u, options.ranks / u);
    }
    throw Error(fmt::format("ulysses{} x ring{} is not {} ranks",
                            options.ulysses > 0 ? fmt::format(" {}", options.ulysses) : "",
                            options.ring > 0 ? fmt::format(" {}", options.ring) : "", options.ranks),
                fmt::format("the product must be the number of ranks: {}", pairs));
  }
  out.exchange = options.exchange == "gather" ? plan::Exchange::kGather : plan::Exchange::kRing;
  out.equal_heads = options.equal_heads;
  if (options.limit != 0 && !(options.limit > 1 && options.limit <= 100))
    throw Error(fmt::format("--limit is {}", options.limit), "an imbalance above 1, which is perfect: 1.05 or so");
  return out;
}

void add_plan(Verb& parser, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  Verb* verb =
      parser.add_subcommand("plan", "spreads sparse attention evenly over ranks, from key lists or block masks");
  verb->require_subcommand();
  const auto add = [&](const char* name, const char* text, const char* files, void (*run)(const PlanOptions&)) {
    Verb* sub = verb->add_subcommand(name, text);
    sub->add_option("files", options->files, files)->required()->type_name("FILE");
    sub->add_option("--ranks", options->ranks, "ranks in all")->required();
    sub->add_option("--head-dim", options->head_dim,
                    "floats of a head, for bytes and times; without: as the lists say, or 128")
        ->between(1, 1 << 20);
    sub->add_option("--json", options->json, "write the result there")->type_name("FILE")->to_write();
    sub->add_option("--report", options->report, "write a page there")->type_name("FILE.html")->to_write();
    sub->callback([options, &action, run] { action = [options, run] { run(*options); }; });
    return sub;
  };
  const auto add_degrees = [&](Verb* sub) {
    sub->add_option("--ulysses", options->ulysses, "groups of heads; without: as many as balance allows");
    sub->add_option("--ring", options->ring, "positions of queries and keys");
    sub->add_option("--exchange", options->exchange,
                    "how keys travel: ring waits after each step, gather has them all before it begins")
        ->one_of({"ring", "gather"})
        ->capture_default_str();
    sub->add_flag("--equal-heads", options->equal_heads, "as many heads for each group, for plain all-to-alls");
    sub->add_option("--cluster", options->cluster, "price query groups on this cluster instead of this machine");
  };
  Verb* partition = add("partition", "who computes which heads and query groups",
                        "key lists, or `mask` [heads, query blocks, key blocks]", plan_partition);
  add_degrees(partition);
  partition->add_option("--limit", options->limit,
                        "imbalance that is good enough: blocks stay where they are once it is reached");
  Verb* steps =
      add("steps", "one plan for many denoising steps: when to plan again, what moves, imbalance at every step",
          "a pattern in quotes, as 'masks/step-*.layer-7.safetensors', or files", plan_steps);
  add_degrees(steps);
  steps->add_option("--limit", options->limit, "imbalance at which a new plan is made; without: 1.05");
  Verb* compare = add("compare", "every Ulysses x ring and HCP x SCP: imbalance, bytes, memory, predicted time",
                      "key lists, or `mask` [heads, query blocks, key blocks]", plan_compare);
  compare->add_option("--cluster", options->cluster, "a name in clusters/, or a file")->required();
  compare->add_option("--memory", options->memory_gib,
                      "GiB that a rank may use for the layer; without: all of the device");
}

}  // namespace reel::app
