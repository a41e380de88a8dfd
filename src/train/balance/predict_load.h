#pragma once

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "schedule/step_plan.h"

namespace tributary::train {

/// Predicts what a training step's work on one sample takes each module: its FLOP, recompute
/// included, at 1 TFLOP/s. Balancing compares times; their scale does not matter to it.
///
/// units: at least 1 ns where there is work
[[nodiscard]] schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                                const config::ModelSection& section,
                                                const SampleShape& shape);

}  // namespace tributary::train
