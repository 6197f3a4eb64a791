#include "reel/model/denoiser.h"

#include <fmt/format.h>

#include "reel/model/family.h"

namespace reel::model {

std::int64_t patch_frames(const ModelConfig& c, std::int64_t frames) {
  return (family_of(c).pads ? frames + c.patch[0] - 1 : frames) / c.patch[0];
}

std::int64_t Denoiser::attentions() const {
  return family_of(config_).full_attention ? config_.layers : 2 * config_.layers;
}

std::unique_ptr<Denoiser> make_denoiser(const ModelConfig& config, tape::Parameters::With with) {
  check(config);
  std::unique_ptr<Denoiser> model = family_of(config).make(config);
  model->parameters().allocate(with);
  return model;
}

void check_plan(const ModelConfig& config, const layout::Degrees& plan) {
  parallel::Team::check(plan);
  if (!family_of(config).full_attention || (plan.dsp == 1 && !plan.both)) return;
  const int n = plan.ranks();
  throw Error(
      fmt::format("the plan \"{}\" needs separate spatial and temporal attention; {} attends to space and time at once",
                  plan.text(), config.family),
      fmt::format("use \"ulysses={}\", \"ring={}\"{} for this model", n, n,
                  n % 2 == 0 && n > 2 ? fmt::format(" or \"ulysses={},ring=2\"", n / 2) : ""));
}

}  // namespace reel::model
