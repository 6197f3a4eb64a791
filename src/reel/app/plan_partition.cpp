#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reel/app/measure.h"
#include "reel/app/plan.h"
#include "reel/app/plan_input.h"
#include "reel/base/error.h"
#include "reel/base/sized.h"
#include "reel/base/timer.h"
#include "reel/files/file.h"
#include "reel/plan/imbalance.h"
#include "reel/report/plan_page.h"

namespace reel::app {

namespace {

using plan::Counts;
using plan::Indices;
using plan::Partition;

// A column of the work is a run of key blocks; files speak of blocks.
std::vector<std::vector<Indices>> in_blocks(const Partition& partition, const Counts& work) {
  std::vector<std::vector<Indices>> blocks;
  for (const auto& columns : partition.keys) {
    Indices place = plan::bins_of(columns, work.columns), place_of_block;
    for (const std::int32_t column : work.column_of) place_of_block.push_back(place[sized(column)]);
    blocks.push_back(plan::lists_of(place_of_block, partition.ring));
  }
  return blocks;
}

struct Planned {
  Partition partition;
  plan::Tiles before, after;
  plan::Moved moved;
  double seconds = 0;
};

std::string to_json(const Planned& r, const Counts& work) {
  const nlohmann::ordered_json out = {
      {"ranks", r.partition.ranks()},
      {"ulysses", r.partition.ulysses},
      {"ring", r.partition.ring},
      {"heads", r.partition.heads},
      {"rows", r.partition.rows},
      {"keys", in_blocks(r.partition, work)},
      {"rho", plan::rho(r.after)},
      {"rho_no_barrier", plan::rho_no_barrier(r.after)},
      {"rho_contiguous", plan::rho(r.before)},
      {"moved_bytes", r.moved.bytes},
      {"plan_seconds", r.seconds},
  };
  return out.dump() + "\n";
}

std::vector<double> over_mean(const plan::Tiles& tiles) {
  std::vector<double> work = tiles.ranks();
  const double mean = tiles.total() / static_cast<double>(work.size());
  for (double& w : work) w /= mean;
  return work;
}

report::OwnerMap owners_of(const Partition& p, const Counts& work) {
  report::OwnerMap map;
  map.title = "Ranks by head and query group";
  map.rows = static_cast<int>(work.rows);
  map.ranks = p.ranks();
  for (std::size_t u = 0; u < p.heads.size(); ++u) {
    for (const std::int32_t head : p.heads[u]) {
      map.heads.push_back(head);
      map.group_of_line.push_back(static_cast<int>(u));
    }
    map.owner.emplace_back();
    for (const std::int32_t place : plan::bins_of(p.rows[u], work.rows))
      map.owner.back().push_back(place * p.ulysses + static_cast<int>(u));
  }
  return map;
}

void write_page(const PlanOptions& options, const PlanInput& input, const Costing& costing, const Planned& r,
                const Counts& work) {
  report::PlanPage page;
  page.name = std::filesystem::path(input.path).filename().string();
  page.subtitle = fmt::format("{} heads, {} query groups, {} key blocks, {} ranks, {}", work.heads, work.rows,
                              work.blocks, r.partition.ranks(), options.exchange);
  page.ulysses = r.partition.ulysses, page.ring = r.partition.ring;
  page.rho = plan::rho(r.after), page.rho_no_barrier = plan::rho_no_barrier(r.after);
  page.rho_contiguous = plan::rho(r.before), page.rho_contiguous_no_barrier = plan::rho_no_barrier(r.before);
  page.moved_bytes = r.moved.bytes, page.moved_share = r.moved.share, page.plan_seconds = r.seconds;
  page.cost = fmt::format("Work of a query group: {}.", costing.text);
  page.rows = static_cast<int>(work.rows), page.columns = static_cast<int>(work.columns);
  page.heads = static_cast<int>(work.heads);
  page.work_before = over_mean(r.before), page.work_after = over_mean(r.after);
  page.owners = owners_of(r.partition, work);
  const double keys = static_cast<double>(input.lists.keys_tokens * work.batch);
  page.mask.assign(sized(work.rows * work.columns), 0.0);
  for (std::size_t i = 0; i < work.keys.size(); ++i) {
    const std::size_t cell = i % page.mask.size();
    const double all =
        static_cast<double>(work.column_tokens[cell % work.column_tokens.size()] * work.batch * work.heads);
    page.mask[cell] += work.keys[i] / all;
  }
  for (const std::uint32_t count : work.row_keys) page.head_rows.push_back(count / keys);
  report::plan_page(page).write(options.report);
}

void print(const PlanInput& input, const Costing& costing, const Planned& r, const Counts& work) {
  fmt::print("{}: {} heads, {} query groups, {} key blocks, density {:.3f}\n", input.path, work.heads, work.rows,
             work.blocks, input.lists.density());
  fmt::print("work of a query group: {}\n\n", costing.text);
  fmt::print("{:30} {:>10} {:>10}\n", fmt::format("ulysses {} x ring {}", r.partition.ulysses, r.partition.ring),
             "contiguous", "planned");
  fmt::print("{}\n", std::string(52, '-'));
  fmt::print("{:30} {:>10.3f} {:>10.3f}\n", "rho", plan::rho(r.before), plan::rho(r.after));
  fmt::print("{:30} {:>10.3f} {:>10.3f}\n\n", "rho without barrier", plan::rho_no_barrier(r.before),
             plan::rho_no_barrier(r.after));
  constexpr std::size_t kShown = 16;
  for (std::size_t u = 0; u < std::min(r.partition.heads.size(), kShown); ++u)
    fmt::print("group {:<3} heads {}\n", u, fmt::join(r.partition.heads[u], " "));
  if (r.partition.heads.size() > kShown) fmt::print("... {} groups in all\n", r.partition.heads.size());
  if (r.partition.ring > 1) {
    fmt::print("moves {:.0f} % of the rows and {} runs of keys of a head: {} a pass\n", r.moved.share * 100,
               r.moved.columns, format_bytes(r.moved.bytes));
  }
  fmt::print("planned in {}\n", format_seconds(r.seconds));
}

}  // namespace

void plan_partition(const PlanOptions& options) {
  plan::Options planner = planner_options(options);
  if (options.limit > 1) planner.target = options.limit;
  if (options.files.size() != 1) throw Error("plan partition takes one file", "for many steps: reel plan steps");
  const PlanInput input = read_plan_input(options.files.front(), options.head_dim);
  const Costing costing = costing_of(input, options.cluster);
  const Counts work = count_work(input, costing.cost, options.ranks);
  Planned r;
  const Timer timer;
  r.partition =
      planner.ulysses == 0 ? plan::choose_partition(work, options.ranks, planner) : plan::make_partition(work, planner);
  r.seconds = timer.seconds();
  const Partition plain = plan::contiguous(work, r.partition.ulysses, r.partition.ring);
  r.before = plan::tiles(work, plain), r.after = plan::tiles(work, r.partition);
  r.moved = plan::moved(plain, r.partition, work, input.head_dim, kElementBytes);
  print(input, costing, r, work);
  if (!options.json.empty()) write_file_atomically(options.json, to_json(r, work));
  if (!options.report.empty()) write_page(options, input, costing, r, work);
}

}  // namespace reel::app
