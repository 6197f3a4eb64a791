#include "reel/model/denoiser.h"

#include <fmt/format.h>

#include "reel/model/latte.h"
#include "reel/model/stdit3.h"
#include "reel/model/wan.h"

namespace reel::model {

std::unique_ptr<Denoiser> make_denoiser(const ModelConfig& config, tape::Parameters::With with) {
  check(config);
  std::unique_ptr<Denoiser> model;
  if (config.family == "wan") {
    model = std::make_unique<Wan>(config);
  } else if (config.family == "stdit3") {
    model = std::make_unique<Stdit3>(config);
  } else {
    model = std::make_unique<Latte>(config);
  }
  model->parameters().allocate(with);
  return model;
}

void check_plan(const std::string& family, const layout::Degrees& plan) {
  parallel::Team::check(plan);
  if (family != "wan" || (plan.dsp == 1 && !plan.both)) return;
  const int n = plan.ranks();
  throw Error(
      fmt::format(
          "the plan \"{}\" needs separate spatial and temporal attention; wan attends to space and time at once",
          plan.text()),
      fmt::format("use \"ulysses={}\", \"ring={}\"{} for this model", n, n,
                  n % 2 == 0 && n > 2 ? fmt::format(" or \"ulysses={},ring=2\"", n / 2) : ""));
}

}  // namespace reel::model
