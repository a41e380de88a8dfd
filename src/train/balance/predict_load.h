#pragma once

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "schedule/step_plan.h"

namespace tributary::train {

/// Predicts how long each module works on one sample in a training step: its FLOP, recompute
/// included, at 1 TFLOP/s. Balancing compares times, so their scale does not matter.
///
/// units: at least 1 ns where there is work
[[nodiscard]] schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                                const config::ModelSection& section,
                                                const SampleShape& shape);

}  // namespace tributary::train
