#include "model/denoiser.h"

#include "model/latte.h"
#include "model/stdit3.h"
#include "model/wan.h"

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

}  // namespace reel::model
