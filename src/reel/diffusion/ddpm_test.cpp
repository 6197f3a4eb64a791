#include "reel/diffusion/ddpm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reel/base/testing.h"
#include "reel/diffusion/testing.h"

namespace reel::diffusion {
namespace {

TEST(Ddpm, TheScheduleIsThePublishedOne) {
  const DdpmSchedule schedule = ddpm_schedule();
  ASSERT_EQ(schedule.size(), 1000u);
  EXPECT_NEAR(schedule.front().beta, 1e-4, 1e-15);
  EXPECT_NEAR(schedule.back().beta, 0.02, 1e-12);
  EXPECT_NEAR(schedule.back().alpha_bar, 4.0358e-5, 5e-10);  // Ho et al.'s linear schedule ends here
  for (std::size_t t = 0; t < 1000; ++t) {
    EXPECT_EQ(schedule[t].timestep, static_cast<std::int64_t>(t));
    EXPECT_NEAR(schedule[t].beta, 1e-4 + 0.0199 * static_cast<double>(t) / 999, 1e-12);
  }
}

TEST(Ddpm, ThePosteriorIsBayesRule) {
  // q(x_{t-1} | x_t, x_0) is proportional to N(x_t; sqrt(1 - beta) x_{t-1}, beta) N(x_{t-1}; sqrt(before) x_0, 1 -
  // before): precisions add, and the mean weighs by precision. Holds for a part of the steps as for all.
  for (const std::int64_t steps : {1000, 50, 7}) {
    const DdpmSchedule schedule = ddpm_schedule(steps);
    for (std::size_t t = 1; t < schedule.size(); ++t) {
      const DdpmStep& s = schedule[t];
      const double from_next = (1 - s.beta) / s.beta, from_data = 1 / (1 - s.alpha_bar_before);
      const double variance = 1 / (from_next + from_data);
      EXPECT_NEAR(s.posterior_variance / variance, 1, 1e-9) << t;
      EXPECT_NEAR(s.posterior_log_variance, std::log(variance), 1e-9) << t;
      EXPECT_NEAR(s.from_xt, variance * std::sqrt(1 - s.beta) / s.beta, 1e-9) << t;
      EXPECT_NEAR(s.from_x0, variance * std::sqrt(s.alpha_bar_before) / (1 - s.alpha_bar_before), 1e-9) << t;
    }
    EXPECT_EQ(schedule[0].posterior_variance, 0);
    EXPECT_EQ(schedule[0].posterior_log_variance, schedule[1].posterior_log_variance);
    EXPECT_NEAR(schedule[0].from_x0, 1, 1e-12);
    EXPECT_EQ(schedule[0].from_xt, 0);
  }
}

TEST(Ddpm, APartOfTheStepsKeepsTheNoiseLevels) {
  const DdpmSchedule all = ddpm_schedule(), some = ddpm_schedule(50);
  ASSERT_EQ(some.size(), 50u);
  EXPECT_EQ(some.front().timestep, 0);
  EXPECT_EQ(some[1].timestep, 20);  // 999 / 49 = 20.39
  EXPECT_EQ(some[2].timestep, 41);
  EXPECT_EQ(some.back().timestep, 999);
  double product = 1;
  for (const DdpmStep& s : some) {
    product *= 1 - s.beta;
    EXPECT_EQ(s.alpha_bar, all[static_cast<std::size_t>(s.timestep)].alpha_bar);
    EXPECT_NEAR(product / s.alpha_bar, 1, 1e-12);
  }
}

TEST(Ddpm, AnyNumberOfStepsUpTo1000Works) {
  for (std::int64_t steps = 1; steps <= 1000; steps += steps < 20 ? 1 : 97) {
    std::set<std::int64_t> different;
    for (const DdpmStep& s : ddpm_schedule(steps)) {
      different.insert(s.timestep);
      EXPECT_TRUE(std::isfinite(s.posterior_log_variance));
    }
    EXPECT_EQ(different.size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(*different.rbegin(), 999);
  }
  EXPECT_NE(message_of([] { ddpm_schedule(0); }).find("use 1 to 1000 steps"), std::string::npos);
  EXPECT_NE(message_of([] { ddpm_schedule(1001); }).find("cannot sample in 1001 steps"), std::string::npos);
}

TEST(Ddpm, LearnedVarianceRunsFromThePosteriorToBeta) {
  const DdpmStep s = ddpm_schedule()[300];
  EXPECT_NEAR(learned_log_variance(s, -1), std::log(s.posterior_variance), 1e-12);
  EXPECT_NEAR(learned_log_variance(s, 1), std::log(s.beta), 1e-12);
  EXPECT_NEAR(learned_log_variance(s, 0), 0.5 * std::log(s.beta * s.posterior_variance), 1e-12);
}

TEST(Ddpm, StepsAreDrawnUniformly) {
  const std::vector<std::int64_t> steps = draw_ddpm_steps(ddpm_schedule(), {3, 4, 0}, 50000);
  std::vector<int> counts(10);
  for (const std::int64_t step : steps) ++counts.at(static_cast<std::size_t>(step / 100));
  for (const int count : counts) EXPECT_NEAR(count, 5000, 270);  // 4 standard deviations
  EXPECT_EQ(std::set<std::int64_t>(steps.begin(), steps.end()).size(), 1000u);
}

TEST(Ddpm, NoisyClipsHaveTheScheduledMeanAndVariance) {
  const DdpmSchedule schedule = ddpm_schedule();
  const ClipShape shape{2, 1, 3, 2, 2};
  const std::vector<float> x0 = normals(shape.size(), 0), noise = normals(shape.size(), 1);
  const std::vector<std::int64_t> steps = {10, 800};
  const Noised noised = ddpm_noise(schedule, shape, x0, noise, steps, 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool given = i % shape.sample() < shape.plane();
    const double alpha_bar = schedule[static_cast<std::size_t>(steps[i / shape.sample()])].alpha_bar;
    EXPECT_NEAR(noised.x[i], given ? x0[i] : std::sqrt(alpha_bar) * x0[i] + std::sqrt(1 - alpha_bar) * noise[i], 1e-6);
    EXPECT_EQ(noised.target[i], given ? 0 : noise[i]);
  }
  EXPECT_EQ(noised.frame_times, (std::vector<float>{0, 10, 10, 0, 800, 800}));
}

}  // namespace
}  // namespace reel::diffusion
