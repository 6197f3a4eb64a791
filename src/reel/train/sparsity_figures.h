// What the page of a sparse run shows (report/sparsity_page.h): read from the run's folder, and computed with one pass
// over a held-out clip, with the noise of validation and attention as in training.
#pragma once

#include <span>
#include <string>

#include "reel/predict/layer_scores.h"
#include "reel/report/sparsity_page.h"
#include "reel/train/trainer.h"

namespace reel::train {

// `trainer` has a controller; nothing that training depends on is changed. The pass is less arithmetic than a step, and
// what is done with its scores is bounded (some 8 million of them), so that every checkpoint can have it. Where no clip
// is held out there are no figures of one.
report::SparsitySummary sparsity_summary(const std::string& run, Trainer& trainer, data::Source& source,
                                         const StepNeed& need);

// Means of what was summed, part by part (layers of a model, or heads of one) and over all of them.
report::AttentionFigures attention_figures(std::span<const predict::LayerScores> parts);

}  // namespace reel::train
