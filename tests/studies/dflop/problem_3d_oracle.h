#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "studies/dflop/problem_3d.h"

namespace tributary::studies {

/// The synthetic tables that the reference values were made with: `encoder` and `backbone` give
/// layers, parameters and width.
struct SyntheticModel {
  double encoder_layers, encoder_parameters, encoder_width;
  double backbone_layers, backbone_parameters, backbone_width;
};

inline constexpr SyntheticModel kModelA = {27, 0.4e9, 1152, 32, 8e9, 4096};
inline constexpr SyntheticModel kModelB = {40, 6e9, 2304, 28, 7.6e9, 3584};
inline constexpr SyntheticModel kModelC = {27, 0.4e9, 1152, 80, 72e9, 8192};

inline Problem3d synthetic_problem(const SyntheticModel& model, std::int64_t devices,
                                   std::int64_t global_samples) {
  const double tiles = 14;
  const double tokens = 3200;
  Problem3d problem;
  problem.devices = devices;
  problem.global_samples = global_samples;
  problem.memory_bytes = 80e9;
  problem.encoder = {.name = "vision",
                     .layers = static_cast<std::int64_t>(model.encoder_layers),
                     .sample_flops = tiles * 729 * model.encoder_parameters * 8,
                     .sample_shape = tiles};
  problem.backbone = {.name = "backbone",
                      .layers = static_cast<std::int64_t>(model.backbone_layers),
                      .sample_flops = tokens * model.backbone_parameters * 8,
                      .sample_shape = tokens};
  const double share[] = {1, 0.93, 0.82, 0.66};
  for (int step = 0; step < 4; ++step) {
    const int tp = 1 << step;
    const double split = std::max(1, tp / 2);
    problem.encoder.degrees.push_back(
        {.tp = tp,
         .throughput = Throughput::saturating(165e12 * share[step], 0.6 * tp),
         .state_bytes = 1.25 * model.encoder_parameters / tp * 18,
         .activation_bytes = 1.25 * 729 * model.encoder_width * 3 / split});
    problem.backbone.degrees.push_back(
        {.tp = tp,
         .throughput = Throughput::saturating(190e12 * share[step], 260.0 * tp),
         .state_bytes = 1.25 * model.backbone_parameters / tp * 18,
         .activation_bytes = 1.25 * model.backbone_width * 4 / split});
  }
  return problem;
}

/// The least value over the whole space, one plan after another; infinite when none fits.
inline Plan3d best_by_brute_force(const Problem3d& problem) {
  Plan3d best;
  best.seconds = std::numeric_limits<double>::infinity();
  for (std::int64_t devices = 1; devices < problem.devices; ++devices) {
    const auto encoders = list_degrees(problem.encoder, devices, problem.global_samples);
    const auto backbones =
        list_degrees(problem.backbone, problem.devices - devices, problem.global_samples);
    for (const Degrees& encoder : encoders) {
      for (const Degrees& backbone : backbones) {
        for (std::int64_t count = 1; count * backbone.dp <= problem.global_samples; ++count) {
          Plan3d plan = {encoder, backbone, count, 0};
          if (!is_valid(problem, plan)) continue;
          plan.seconds = step_seconds(problem, plan);
          if (plan.seconds < best.seconds) best = plan;
        }
      }
    }
  }
  return best;
}

/// A problem of any kind: laws and tables, some of them falling, memory from ample to impossible.
inline Problem3d random_problem(RandomStream& random) {
  Problem3d problem;
  problem.devices = random.between(2, 14);
  problem.global_samples = random.between(1, 40);
  problem.memory_bytes = 1e9 * (1 + 30 * random.uniform());
  const auto fill = [&](ModuleCosts& module, const char* name, double shape) {
    module = {.name = name,
              .layers = random.between(1, 9),
              .sample_flops = 1e13 * (0.1 + random.uniform()),
              .sample_shape = shape};
    for (std::int64_t tp = 1; tp <= 4; tp *= 2) {
      if (tp > 1 && random.below(3) == 0) continue;
      const auto scale = 1e14 / (1 + 0.2 * static_cast<double>(tp) * random.uniform());
      std::vector<Throughput::Point> points;
      for (double at = shape * 0.3; at < shape * 50; at *= 2.3) {
        points.push_back({at, scale * (0.3 + random.uniform())});
      }
      module.degrees.push_back(
          {.tp = tp,
           .throughput = random.below(2) == 0
                             ? Throughput::saturating(scale, shape * random.uniform())
                             : Throughput::table(points),
           .state_bytes = 2e10 * random.uniform() / static_cast<double>(tp) + 1,
           .activation_bytes = 1e9 * random.uniform() / shape / static_cast<double>(tp) + 1});
    }
  };
  fill(problem.encoder, "vision", 14);
  fill(problem.backbone, "backbone", 3200);
  return problem;
}

}  // namespace tributary::studies
