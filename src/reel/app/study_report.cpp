#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "reel/app/study.h"
#include "reel/report/axis.h"
#include "reel/report/study_page.h"
#include "reel/train/sparsity_figures.h"

namespace reel::app {

namespace {

using Json = nlohmann::ordered_json;
using study::HeadStudy;

constexpr std::size_t kNear = 5;  // tokens

double queries_of(const HeadStudy& head) { return std::max(1.0, static_cast<double>(head.queries.queries)); }

double query_keys(const HeadStudy& head) { return head.queries.needed / queries_of(head); }
double group_keys(const HeadStudy& head) { return head.predictors.front().needed; }

// 0, 1, 2, 3, 5, 8, 13, ...: distances in tokens at which locality is told, as far as there are any.
std::vector<std::size_t> distances_of(const Study& study) {
  std::vector<std::size_t> distances;
  std::size_t furthest = 0;
  for (const HeadStudy& head : study.heads) furthest = std::max(furthest, head.queries.critical_at.size());
  for (std::size_t at = 0, next = 1; at < furthest && distances.size() < 16; next += std::exchange(at, next)) {
    if (distances.empty() || at > distances.back()) distances.push_back(at);
  }
  return distances;
}

// Sums up to each distance.
std::vector<double> within(const std::vector<double>& at, const std::vector<std::size_t>& distances) {
  std::vector<double> sums;
  sums.reserve(distances.size());
  for (const std::size_t distance : distances) {
    sums.push_back(
        std::accumulate(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(std::min(distance + 1, at.size())), 0.0));
  }
  return sums;
}

// Critical keys that are near.
double near_keys(const HeadStudy& head) { return within(head.queries.critical_at, {kNear})[0] / queries_of(head); }

std::string percent(double share) { return std::isfinite(share) ? fmt::format("{:.1f}", 100 * share) : "-"; }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json numbers(const std::vector<double>& values, double of = 1) {
  Json out = Json::array();
  for (const double value : values) out.push_back(number(value / of));
  return out;
}

std::string where(const Study& study) {
  return study.grid.empty()
             ? std::string("in order, groups of 64")
             : fmt::format("in a grid of {}, tiles of {}", fmt::join(study.grid, " x "), fmt::join(study.tile, " x "));
}

std::string findings(const Study& study) {
  if (!study.break_even_note.empty()) return study.break_even_note;
  return fmt::format(
      "sparse attention is faster here below {:.0f} % of the keys (forward and backward, choice included): {:.0f} % of "
      "the heads, by lists of {}",
      100 * study.break_even, 100 * study.paying_heads(), study.best_rank());
}

}  // namespace

std::string Study::best_rank() const {
  std::string best;
  for (const auto& each : heads.front().predictors) {
    if (each.name.starts_with("rank ") && std::stoll(each.name.substr(5)) <= 32) best = each.name;
  }
  return best;
}

double Study::mean(const std::function<double(const HeadStudy&)>& value) const {
  double sum = 0;
  for (const HeadStudy& head : heads) sum += value(head);
  return sum / static_cast<double>(heads.size());
}

double Study::paying_heads() const {
  if (!std::isfinite(break_even)) return break_even;
  return mean([&](const HeadStudy& head) { return head.predictor(best_rank()).needed < break_even ? 1.0 : 0.0; });
}

void print_study(const Study& study) {
  fmt::print("{}: {} heads of {}, {} tokens {}\n", study.path, study.heads.size(), study.head_dim, study.tokens,
             where(study));
  fmt::print("from {} queries and {} groups of each head, in percent of all keys or of the attention\n\n",
             study.queries, study.groups);
  // Keys for the mass | mass on `size` of the keys by predictor | in blocks | error of the output
  const auto& predictors = study.heads.front().predictors;
  std::string top = fmt::format("{:>5}  keys for {} % of it {:>24}  on {} % of the keys:", "", percent(study.mass), "",
                                percent(study.size));
  std::string names =
      fmt::format("{:>5} {:>8} {:>8} {:>9} {:>8} {:>8} ", "head", "a query", "a group", "Gaussian", "overlap", "near");
  for (const auto& each : predictors)
    names += fmt::format(" {:>{}}", each.name, std::max<std::size_t>(7, each.name.size()));
  for (const auto& block : study.heads.front().blocks) {
    if (block.keys > 1) names += fmt::format(" {:>9}", fmt::format("blocks {}", block.keys));
  }
  names += fmt::format(" {:>7}", "error");
  fmt::print("{}\n{}\n", top, names);
  const auto row = [&](const std::string& name,
                       const std::function<double(const std::function<double(const HeadStudy&)>&)>& get) {
    fmt::print("{:>5} {:>8} {:>8} {:>9} {:>8} {:>8} ", name, percent(get(query_keys)), percent(get(group_keys)),
               percent(get([](const HeadStudy& h) { return h.gaussian; })),
               percent(get([](const HeadStudy& h) { return h.overlap; })), percent(get(near_keys)));
    for (std::size_t p = 0; p < predictors.size(); ++p) {
      fmt::print(" {:>{}}", percent(get([&](const HeadStudy& h) { return h.predictors[p].covered; })),
                 std::max<std::size_t>(7, predictors[p].name.size()));
    }
    for (std::size_t i = 0; i < study.heads.front().blocks.size(); ++i) {
      if (study.heads.front().blocks[i].keys > 1) {
        fmt::print(" {:>9}", percent(get([&](const HeadStudy& h) { return h.blocks[i].covered; })));
      }
    }
    fmt::print(" {:>7}\n", percent(get([&](const HeadStudy& h) { return h.predictor(study.best_rank()).error; })));
  };
  for (std::size_t h = 0; h < study.heads.size(); ++h) {
    row(std::to_string(h), [&](const auto& value) { return value(study.heads[h]); });
  }
  row("mean", [&](const auto& value) { return study.mean(value); });
  fmt::print("recall{:>43}", "");
  for (std::size_t p = 0; p < predictors.size(); ++p) {
    fmt::print(" {:>{}}", percent(study.mean([&](const HeadStudy& h) { return h.predictors[p].recall; })),
               std::max<std::size_t>(7, predictors[p].name.size()));
  }
  fmt::print(
      "\n\nGaussian: what scores of the same spread would need without structure. near: critical keys within {} "
      "tokens.\nerror: of the output over lists of {}{}.\n{}\n",
      kNear, study.best_rank(), std::isfinite(study.heads.front().predictors.front().error) ? "" : " (needs v)",
      findings(study));
}

Json study_json(const Study& study) {
  Json out = {{"file", study.path},
              {"heads", study.heads.size()},
              {"tokens", study.tokens},
              {"head_dim", study.head_dim},
              {"grid", study.grid},
              {"tile", study.tile},
              {"mass", study.mass},
              {"size", study.size},
              {"groups_looked_at", study.groups},
              {"queries_looked_at", study.queries}};
  out["break_even"] = number(study.break_even);
  out["break_even_note"] = study.break_even_note;
  out["paying_heads"] = number(study.paying_heads());
  const std::vector<std::size_t> distances = distances_of(study);
  out["distances"] = distances;
  out["curve_shares"] = predict::LayerScores::kCurve;
  out["list_shares"] = HeadStudy::kShares;
  out["kept_shares"] = predict::LayerScores::kKept;
  Json mean = {{"query_keys", study.mean(query_keys)}, {"group_keys", study.mean(group_keys)}};
  for (std::size_t p = 0; p < study.heads.front().predictors.size(); ++p) {
    mean["predictors"].push_back(
        {{"name", study.heads.front().predictors[p].name},
         {"needed", study.mean([&](const HeadStudy& h) { return h.predictors[p].needed; })},
         {"covered", study.mean([&](const HeadStudy& h) { return h.predictors[p].covered; })},
         {"recall", study.mean([&](const HeadStudy& h) { return h.predictors[p].recall; })},
         {"error", number(study.mean([&](const HeadStudy& h) { return h.predictors[p].error; }))}});
  }
  out["mean"] = std::move(mean);
  for (std::size_t h = 0; h < study.heads.size(); ++h) {
    const HeadStudy& head = study.heads[h];
    const double n = queries_of(head);
    Json each = {{"head", h},
                 {"query_keys", query_keys(head)},
                 {"group_keys", group_keys(head)},
                 {"score_spread", number(head.spread)},
                 {"gaussian_keys", number(head.gaussian)},
                 {"overlap", head.overlap},
                 {"curve", numbers(head.queries.carried, n)},
                 {"critical_within", numbers(within(head.queries.critical_at, distances), n)},
                 {"all_within", numbers(within(head.queries.all_at, distances), n)},
                 {"error_critical", numbers(head.queries.error_critical, n)},
                 {"error_random", numbers(head.queries.error_random, n)}};
    for (const auto& p : head.predictors) {
      each["predictors"].push_back({{"name", p.name},
                                    {"needed", p.needed},
                                    {"covered", p.covered},
                                    {"recall", p.recall},
                                    {"error", number(p.error)},
                                    {"carried", p.carried}});
    }
    for (const auto& b : head.blocks) {
      each["blocks"].push_back({{"keys", b.keys}, {"covered", b.covered}, {"needed", b.needed}});
    }
    out["of_heads"].push_back(std::move(each));
  }
  return out;
}

void write_page(const Study& study, const std::string& path) {
  report::StudySummary page;
  page.title = fmt::format("Attention of {}", std::filesystem::path(study.path).filename().string());
  page.subtitle =
      fmt::format("{} heads of {}, {} tokens {}; {} queries and {} groups of each head looked at", study.heads.size(),
                  study.head_dim, report::format_count(study.tokens), where(study), study.queries, study.groups);
  const auto share = [](double value) { return report::format_value(value, report::Unit::kShare); };
  page.mass = study.mass, page.size = study.size, page.break_even = study.break_even;
  page.headline = {{fmt::format("keys of a query for {}", share(study.mass)), share(study.mean(query_keys))},
                   {"of a group's list", share(study.mean(group_keys))},
                   {fmt::format("mass on {}, by {}", share(study.size), study.best_rank()),
                    share(study.mean([&](const HeadStudy& h) { return h.predictor(study.best_rank()).covered; }))},
                   {"heads where sparse is faster", share(study.paying_heads())}};
  page.notices = {findings(study)};
  for (const auto& each : study.heads.front().predictors) page.predictors.push_back(each.name);
  page.shares.assign(HeadStudy::kShares.begin(), HeadStudy::kShares.end());
  page.blocks.assign(HeadStudy::kBlocks.begin(), HeadStudy::kBlocks.end());
  page.distances = distances_of(study);
  std::vector<predict::LayerScores> scores;
  for (const HeadStudy& head : study.heads) {
    report::StudySummary::Head row{
        query_keys(head), group_keys(head), head.gaussian, head.overlap, {}, {}, {}, {}, {}, {}};
    for (const auto& p : head.predictors) {
      row.covered.push_back(p.covered);
      row.recall.push_back(p.recall);
      row.error.push_back(p.error);
      row.carried.push_back(p.carried);
    }
    for (const auto& b : head.blocks) {
      row.block_covered.push_back(b.covered);
      row.block_needed.push_back(b.needed);
    }
    page.heads.push_back(std::move(row));
    scores.push_back(head.queries);
  }
  page.figures = train::attention_figures(scores);
  page.figures.part = "head";
  page.figures.mass = study.mass;
  page.figures.tokens = study.tokens;
  write_study_page(page, path);
}

}  // namespace reel::app
