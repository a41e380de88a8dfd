#include "studies/methods/training_problem.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::studies {
namespace {

double between(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

SampleWork draw_sample(RandomStream& random) {
  const double text = std::exp(between(random, std::log(40.0), std::log(500.0)));
  const double kind = 185 * random.uniform();
  if (kind < 46) return {5, 729 + 2187 * between(random, 0.7, 1.33) + text};
  if (kind < 65) {
    const auto tiles = static_cast<double>(random.between(6, 25));
    return {tiles + 1, 729 + std::min(9.0, tiles) * 729 * between(random, 0.75, 1) + text};
  }
  if (kind < 125) {
    const double images = std::min(16.0, 2 + std::floor(-2.2 * std::log(1 - random.uniform())));
    return {images, 730 * images + text};
  }
  const auto frames = static_cast<double>(random.between(4, 31));
  return {frames, 210 * frames + text};
}

}  // namespace

std::vector<std::vector<SampleWork>> draw_batches(std::int64_t batches, std::int64_t global_samples,
                                                  std::uint64_t seed) {
  std::vector<std::vector<SampleWork>> drawn;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    RandomStream random(seed, "mixture", static_cast<std::uint64_t>(batch));
    drawn.emplace_back();
    for (std::int64_t sample = 0; sample < global_samples; ++sample) {
      drawn.back().push_back(draw_sample(random));
    }
  }
  return drawn;
}

void set_mean_shapes(TrainingProblem& problem) {
  double tiles = 0;
  double tokens = 0;
  double samples = 0;
  for (const std::vector<SampleWork>& batch : problem.batches) {
    for (const SampleWork& sample : batch) {
      tiles += sample.tiles;
      tokens += sample.tokens;
      ++samples;
    }
  }
  const auto set = [](ModuleCosts& module, double shape) {
    module.sample_flops *= shape / module.sample_shape;
    module.sample_shape = shape;
  };
  set(problem.costs.encoder, tiles / samples);
  set(problem.costs.backbone, tokens / samples);
}

void check_problem(const TrainingProblem& problem) {
  check_problem(problem.costs);
  const auto check = [](bool is_good, const char* where, double found, const char* expected) {
    TRIB_REQUIRE(is_good, .what = "studies: value cannot be used", .where = where,
                 .found = str(found), .expected = expected);
  };
  for (const ModuleCosts* module : {&problem.costs.encoder, &problem.costs.backbone}) {
    // A frozen encoder has no backward.
    check(module->forward_share > 0 && module->forward_share <= 1, "forward_share",
          module->forward_share, "above 0, at most 1");
    check(module->gradient_share >= 0 && module->gradient_share <= 1, "gradient_share",
          module->gradient_share, "0 to 1");
    check(module->parameter_share > 0 && module->parameter_share <= 1, "parameter_share",
          module->parameter_share, "above 0, at most 1");
    check(module->sharded_share >= 0 && module->sharded_share <= 1, "sharded_share",
          module->sharded_share, "0 to 1");
  }
  check(std::isfinite(problem.bytes_per_second) && problem.bytes_per_second > 0, "bytes_per_second",
        problem.bytes_per_second, "above 0");
  check(std::isfinite(problem.feature_bytes) && problem.feature_bytes >= 0, "feature_bytes",
        problem.feature_bytes, "0 or above");
  check(problem.devices_per_node >= 1, "devices_per_node", double(problem.devices_per_node),
        "1 or more");
  check(std::isfinite(problem.node_bytes_per_second) && problem.node_bytes_per_second >= 0,
        "node_bytes_per_second", problem.node_bytes_per_second, "0 or above");
  check(std::isfinite(problem.capacity_tokens) && problem.capacity_tokens >= 0, "capacity_tokens",
        problem.capacity_tokens, "0 or above");
  TRIB_REQUIRE(!problem.batches.empty(), .what = "studies: no batch to judge plans by",
               .where = "batches", .found = "none", .expected = "one batch at least");
  for (std::size_t batch = 0; batch < problem.batches.size(); ++batch) {
    TRIB_REQUIRE(std::ssize(problem.batches[batch]) == problem.costs.global_samples,
                 .what = "studies: batch of another size", .where = str("batch ", batch),
                 .found = str(problem.batches[batch].size(), " samples"),
                 .expected = str(problem.costs.global_samples));
    for (const SampleWork& sample : problem.batches[batch]) {
      TRIB_REQUIRE(std::isfinite(sample.tiles) && sample.tiles >= 0 &&
                       std::isfinite(sample.tokens) && sample.tokens > 0,
                   .what = "studies: sample cannot be used", .where = str("batch ", batch),
                   .found = str(sample.tiles, " tiles, ", sample.tokens, " tokens"),
                   .expected = "tiles 0 or above, tokens above 0");
    }
  }
}

}  // namespace tributary::studies
