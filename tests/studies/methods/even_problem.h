#pragma once

#include "studies/methods/training_problem.h"

namespace tributary::studies {

/// Layers of a module and the seconds that one of them takes of a sample, at any shape.
struct EvenModule {
  std::int64_t layers = 1;
  double layer_seconds = 1;
  double state_bytes = 1;
};

/// Four equal samples of a tile and a token on so many devices of `memory` bytes, tp 1 alone, a
/// quarter of each pass forward; whatever moves takes no time.
inline TrainingProblem even_problem(std::int64_t devices, const EvenModule& encoder,
                                    const EvenModule& backbone, double memory) {
  const auto module = [](const char* name, const EvenModule& of) {
    ModuleCosts costs{.name = name,
                      .layers = of.layers,
                      .sample_flops = 1e12 * of.layer_seconds * double(of.layers),
                      .sample_shape = 1,
                      .forward_share = 0.25,
                      .gradient_share = 0};
    costs.degrees = {{.tp = 1,
                      .throughput = Throughput::saturating(1e12, 0),
                      .state_bytes = of.state_bytes,
                      .activation_bytes = 1e-9}};
    return costs;
  };
  TrainingProblem problem;
  problem.costs = {.encoder = module("vision", encoder),
                   .backbone = module("backbone", backbone),
                   .devices = devices,
                   .global_samples = 4,
                   .memory_bytes = memory};
  problem.batches = {std::vector<SampleWork>(4, {1, 1})};
  return problem;
}

}  // namespace tributary::studies
