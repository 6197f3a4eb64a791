#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "reel/app/measure.h"
#include "reel/app/plan.h"
#include "reel/app/plan_input.h"
#include "reel/base/error.h"
#include "reel/files/file.h"
#include "reel/plan/reuse.h"
#include "reel/report/plan_page.h"

namespace reel::app {

namespace {

struct Steps {
  int ulysses = 0, ring = 0;
  double limit = 0;
  std::string cost;  // of a query group of the first file, in words
  std::vector<std::string> files;
  std::vector<plan::Reuse::Step> steps;
  double mean_rho = 0, moved_bytes = 0;
  int plans = 0;
};

Steps run(const PlanOptions& options) {
  plan::Options planner = planner_options(options);
  Steps out;
  out.files = matching_files(options.files);
  out.limit = options.limit > 0 ? options.limit : 1.05;
  std::optional<plan::Reuse> reuse;
  std::optional<PlanInput> before;
  for (const std::string& file : out.files) {
    PlanInput input = read_plan_input(file, options.head_dim, before ? &*before : nullptr);
    const Costing costing = costing_of(input, options.cluster);
    const plan::Counts work = count_work(input, costing.cost, options.ranks);
    if (!reuse) {
      out.cost = costing.text;
      if (planner.ulysses == 0) {
        const plan::Partition chosen = plan::choose_partition(work, options.ranks, planner);
        planner.ulysses = chosen.ulysses, planner.ring = chosen.ring;
      }
      out.ulysses = planner.ulysses, out.ring = planner.ring;
      reuse.emplace(planner, out.limit, input.head_dim, kElementBytes);
    }
    try {
      out.steps.push_back(reuse->next(work));
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", file, error.what()), error.hint());
    }
    const plan::Reuse::Step& step = out.steps.back();
    out.mean_rho += step.rho / static_cast<double>(out.files.size());
    out.moved_bytes += step.moved.bytes;
    out.plans += step.planned ? 1 : 0;
    before = std::move(input);
  }
  return out;
}

void write_json(const Steps& s, int ranks, const std::string& path) {
  nlohmann::ordered_json steps = nlohmann::json::array();
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Reuse::Step& step = s.steps[i];
    steps.push_back({{"file", s.files[i]},
                     {"rho", step.rho},
                     {"rho_kept", step.rho_kept},
                     {"rho_contiguous", step.rho_contiguous},
                     {"planned", step.planned},
                     {"moved_share", step.moved.share},
                     {"moved_bytes", step.moved.bytes}});
  }
  const nlohmann::ordered_json out = {
      {"ranks", ranks}, {"ulysses", s.ulysses},   {"ring", s.ring},   {"limit", s.limit},
      {"steps", steps}, {"mean_rho", s.mean_rho}, {"plans", s.plans}, {"moved_bytes", s.moved_bytes}};
  write_file_atomically(path, out.dump(1) + "\n");
}

void write_page(const Steps& s, int ranks, const std::string& path) {
  report::PlanSteps page;
  page.title = fmt::format("reel plan: {} steps", s.steps.size());
  page.subtitle = fmt::format("{} ranks, ulysses {} x ring {}", ranks, s.ulysses, s.ring);
  page.limit = s.limit;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Reuse::Step& step = s.steps[i];
    page.steps.push_back({std::filesystem::path(s.files[i]).filename().string(), step.rho, step.rho_kept,
                          step.rho_contiguous, step.planned, step.moved.bytes, step.moved.share});
  }
  report::plan_steps_page(page).write(path);
}

}  // namespace

void plan_steps(const PlanOptions& options) {
  const Steps s = run(options);
  fmt::print("{} steps, {} ranks: ulysses {} x ring {}, a new plan above {:.3f}\n", s.steps.size(), options.ranks,
             s.ulysses, s.ring, s.limit);
  fmt::print("work of a query group: {}\n\n", s.cost);
  fmt::print("{:>4} {:40} {:>10} {:>9} {:>9}   {}\n", "step", "file", "contiguous", "kept plan", "in force",
             "new plan");
  fmt::print("{}\n", std::string(96, '-'));
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const plan::Reuse::Step& step = s.steps[i];
    fmt::print("{:>4} {:40} {:>10.3f} {:>9.3f} {:>9.3f}   {}\n", i,
               std::filesystem::path(s.files[i]).filename().string(), step.rho_contiguous, step.rho_kept, step.rho,
               step.planned ? fmt::format("moves {:.0f} % of the rows, {}", step.moved.share * 100,
                                          format_bytes(step.moved.bytes))
                            : "");
  }
  fmt::print("\nmean rho {:.3f}, {} plans in {} steps, {} moved\n", s.mean_rho, s.plans, s.steps.size(),
             format_bytes(s.moved_bytes));
  if (!options.json.empty()) write_json(s, options.ranks, options.json);
  if (!options.report.empty()) write_page(s, options.ranks, options.report);
}

}  // namespace reel::app
