#include "reel/report/plan_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reel/report/testing.h"

namespace reel::report {
namespace {

PlanPage plan_of(int heads, int rows, int ranks) {
  PlanPage plan;
  plan.name = "<mask>.safetensors";
  plan.ulysses = ranks, plan.ring = 1;
  plan.rho = 1.004, plan.rho_contiguous = 1.31;
  plan.rows = rows, plan.columns = rows, plan.heads = heads;
  plan.mask.assign(static_cast<std::size_t>(rows * rows), 0.5);
  plan.head_rows.assign(static_cast<std::size_t>(heads * rows), 0.25);
  plan.owners.rows = rows, plan.owners.ranks = ranks;
  for (int r = 0; r < ranks; ++r) {
    plan.work_before.push_back(r == 0 ? 1.31 : 0.9);
    plan.work_after.push_back(1);
    plan.owners.owner.emplace_back(static_cast<std::size_t>(rows), r);
  }
  for (int h = 0; h < heads; ++h) {
    plan.owners.heads.push_back(h);
    plan.owners.group_of_line.push_back(h * ranks / heads);
  }
  return plan;
}

TEST(PlanPage, ShowsImbalanceOwnersAndMask) {
  const std::string page = plan_page(plan_of(8, 12, 4)).html();
  EXPECT_EQ(markup_fault(page), "");
  for (const char* text :
       {"1.004", "1.310", "Who computes what", "rank 3", "The mask", "&lt;mask&gt;", "slowest before"})
    EXPECT_TRUE(has(page, text)) << text;
  EXPECT_FALSE(has(page, "<mask>"));
}

TEST(PlanPage, OfManyRanksAndGroupsStaysSmall) {
  const std::string page = plan_page(plan_of(128, 2000, 64)).html();
  EXPECT_TRUE(has(page, "The first 32 of 64 ranks."));
  EXPECT_LT(page.size(), 3u << 20);
}

TEST(PlanPage, OwnersOfARingAreRunsOfColour) {
  OwnerMap map;
  map.rows = 6, map.ranks = 2;
  map.heads = {0, 1}, map.group_of_line = {0, 0};
  map.owner = {{0, 0, 1, 1, 0, 0}};
  const std::string html = owner_map(map).markup;
  EXPECT_TRUE(has(html, "M0 0h2v1h-2zM4 0h2v1h-2zM0 1h2v1h-2zM4 1h2v1h-2z"));  // rank 0
  EXPECT_TRUE(has(html, "M2 0h2v1h-2zM2 1h2v1h-2z"));                          // rank 1
  EXPECT_TRUE(has(owner_map({}).markup, "nothing to compute"));
}

TEST(PlanPage, StepsShowTheLimitAndWhatMoved) {
  PlanSteps steps;
  steps.title = "reel plan: 2 steps";
  steps.limit = 1.05;
  steps.steps = {{"step-0", 1.01, 1.4, 1.4, true, 3 << 20, 0.25}, {"step-1", 1.03, 1.03, 1.5, false, 0, 0}};
  const std::string page = plan_steps_page(steps).html();
  EXPECT_EQ(markup_fault(page), "");
  for (const char* text : {"1.020", "1 of 2", "limit", "3\u00a0MiB", "step-1"}) EXPECT_TRUE(has(page, text)) << text;
}

TEST(PlanPage, StrategiesShowPartsAndReasons) {
  PlanStrategies all;
  all.title = "reel plan";
  all.rows = {{"hcp 2 x scp 4", 1.02, 1.3, 1e9, 2e9, 1e-3, 1e-5, 2e-4, 0, 3e-4, true},
              {"ulysses 8", 4.2, 4.2, 1e9, 2e9, 1e-3, 3e-3, 2e-4, 0, 0, false}};
  all.explanations = {"hcp 2 x scp 4 takes less because"};
  const std::string page = plan_strategies_page(all).html();
  EXPECT_EQ(markup_fault(page), "");
  for (const char* text : {"hcp 2 x scp 4", "waiting", "takes less because", "4.200", "1.51\u00a0ms"})
    EXPECT_TRUE(has(page, text)) << text;
}

}  // namespace
}  // namespace reel::report
