#include "train/balance/predict_load.h"

#include <algorithm>
#include <cmath>

#include "train/balance/flops.h"

namespace tributary::train {
namespace {

constexpr double kNanosecondsPerFlop = 1e-3;

Nanoseconds time_of(double flops) {
  if (flops <= 0) return {};
  return {std::max<std::int64_t>(1, std::llround(flops * kNanosecondsPerFlop))};
}

}  // namespace

schedule::SampleLoad predict_load(const config::ModelConfig& model,
                                  const config::ModelSection& section, const SampleShape& shape) {
  const ForwardFlops whole = count_forward(model, shape);
  ForwardFlops vision = whole;
  vision.backbone_linear = vision.backbone_mlp = vision.backbone_attention = vision.head = 0;
  std::vector<std::string> run_again = section.recompute;
  run_again.insert(run_again.end(), section.offload.begin(), section.offload.end());
  const double all = count_training(whole, section.freeze, run_again).hardware;
  const double of_vision = count_training(vision, section.freeze, run_again).hardware;
  return {
      .tokens = shape.tokens, .vision = time_of(of_vision), .backbone = time_of(all - of_vision)};
}

}  // namespace tributary::train
