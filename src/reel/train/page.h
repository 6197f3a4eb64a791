// RUN/samples and RUN/report.html.
#pragma once

#include <string>

#include "reel/train/checkpoint.h"

namespace reel::train {

// Samples train.samples clips with the texts of held-out clips and writes their strips. Where an average of the weights
// is kept, that is the model that samples.
void write_samples(const std::string& run, Trainer& trainer, data::Source& source);

void write_page(const std::string& run, Trainer& trainer, data::Source& source, const RunState& state,
                const StepNeed& need);

}  // namespace reel::train
