// reel study RUN: how well predictors find the keys of a trained model.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "reel/app/app.h"
#include "reel/app/study.h"
#include "reel/base/progress.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/files/file.h"
#include "reel/train/predictor_figures.h"

namespace reel::app {

namespace {

using Json = nlohmann::ordered_json;
using predict::FoundKeys;
using train::PredictorFigures;

std::string name_of(const PredictorFigures& p) { return p.rank == 0 ? "auto" : fmt::format("rank {}", p.rank); }

FoundKeys lowest(const PredictorFigures& p) {
  FoundKeys least = p.heads.front();
  for (const FoundKeys& head : p.heads) {
    least.recall = std::min(least.recall, head.recall);
    least.query_mass = std::min(least.query_mass, head.query_mass);
    least.group_mass = std::min(least.group_mass, head.group_mass);
    least.list_mass = std::min(least.list_mass, head.list_mass);
  }
  return least;
}

std::string cells(const FoundKeys& f) {
  return fmt::format("  {:>6.3f} {:>5.3f} {:>5.3f} {:>5.3f}", f.recall, f.query_mass, f.group_mass, f.list_mass);
}

// One table a kind: heads down, ranks across.
void print_kind(const train::PredictorTable& table, const predict::ModelHeads& shape, const std::string& kind) {
  std::string top = fmt::format("{:<12}", kind), names = fmt::format("{:>5} {:>6}", "layer", "head");
  for (const PredictorFigures& p : table.predictors) {
    if (p.kind != kind) continue;
    top += fmt::format("  {:^24}", name_of(p));
    names += fmt::format("  {:>6} {:>5} {:>5} {:>5}", "recall", "mass", "group", "own");
  }
  fmt::print("\n{}\n{}\n", top, names);
  const auto row = [&](const std::string& name, const auto& of) {
    std::string line = name;
    for (const PredictorFigures& p : table.predictors) {
      if (p.kind == kind) line += cells(of(p));
    }
    fmt::print("{}\n", line);
  };
  for (std::size_t i = 0; i < table.predictors.front().heads.size(); ++i) {
    const auto heads = sized(shape.heads);
    row(fmt::format("{:>5} {:>6}", i / heads, i % heads), [&](const PredictorFigures& p) { return p.heads[i]; });
  }
  row(fmt::format("{:>12}", "mean"), [](const PredictorFigures& p) { return p.mean; });
  row(fmt::format("{:>12}", "lowest"), lowest);
}

Json json_of(const FoundKeys& f) {
  return {{"recall", f.recall},
          {"query_mass", f.query_mass},
          {"group_mass", f.group_mass},
          {"list_mass_with_own_tile", f.list_mass}};
}

Json json_of(const train::PredictorTable& table, const std::string& run, std::int64_t step) {
  Json out = {{"run", run},
              {"step", step},
              {"tokens", table.tokens},
              {"size", table.size},
              {"clips_learnt_from", table.learnt},
              {"clips_judged_on", table.judged},
              {"groups_looked_at", table.groups}};
  for (const PredictorFigures& p : table.predictors) {
    Json each = {{"predictor", p.kind}, {"rank", p.rank}, {"mean", json_of(p.mean)}, {"lowest", json_of(lowest(p))}};
    for (std::size_t i = 0; i < p.heads.size(); ++i) {
      Json head = json_of(p.heads[i]);
      head["rank"] = p.ranks_of_head[i];
      each["of_heads"].push_back(std::move(head));
    }
    out["predictors"].push_back(std::move(each));
  }
  return out;
}

}  // namespace

void study_run(const std::string& run, const std::string& json, int thread_count) {
  const Timer timer;
  // A dense run stays dense: no head of it was ever looked at. The controller puts tokens in order.
  const train::TrainedRun trained =
      train::open_run(run, {.sparsity = train::OpenOptions::Sparsity::kAlways, .warn = warn});
  Threads threads(thread_count);
  std::optional<Progress> progress;
  const train::PredictorTable table =
      train::study_predictors(trained, threads, [&](std::int64_t done, std::int64_t of) {
        if (!progress) progress.emplace("study", of);
        progress->update(done);
      });
  if (progress) progress->finish();
  const predict::ModelHeads shape = trained.sparsity->shape();
  fmt::print("{}: step {}, {} layers of {} heads of {}, {} tokens\n", run, trained.step, shape.layers, shape.heads,
             shape.head_dim, table.tokens);
  fmt::print(
      "predictors learnt from {} training clips, judged on {} held-out ones, {} groups of queries of each head\n",
      table.learnt, table.judged, table.groups);
  for (const char* kind : {"qk", "hidden"}) print_kind(table, shape, kind);
  fmt::print(
      "\nof the heaviest {:.0f} % of a query's keys: recall, those found; mass, what the found ones carry of theirs.\n"
      "of the best list of {:.0f} % for a group: group, what the predicted one carries of its mass; own, with the own "
      "tile in it.\n{:.1f} s\n",
      100 * table.size, 100 * table.size, timer.seconds());
  if (!json.empty()) write_file_atomically(json, json_of(table, run, trained.step).dump(2) + "\n");
}

}  // namespace reel::app
