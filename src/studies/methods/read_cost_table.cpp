#include "studies/methods/read_cost_table.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "config/reading/artifact_object.h"
#include "core/file/given_file.h"

namespace tributary::studies {
namespace {

using config::ArtifactObject;
using config::Problems;

/// A number that is at least `min`, or above it; a missing one gets `standard` if there is one.
double number(ArtifactObject& object, const std::string& key, std::optional<double> standard,
              bool may_be_zero = false) {
  const Json* value = object.find(key);
  if (value == nullptr && standard) return *standard;
  const bool is_number = value != nullptr && value->is_number();
  const double found = is_number ? value->get<double>() : 0.0;
  if (!is_number || !std::isfinite(found) || found < 0 || (found == 0 && !may_be_zero)) {
    object.refuse(key, may_be_zero ? "a number of 0 or above" : "a number above 0");
    return 1;
  }
  return found;
}

/// Pairs of numbers: [[shape, flops_per_second], ...].
std::vector<Throughput::Point> read_points(ArtifactObject& degree) {
  const std::string expected = "a list of pairs [shape, FLOP/s], shapes ascending, all above 0";
  std::vector<Throughput::Point> points;
  const Json& list = *degree.find("throughput");
  double last = 0;
  const auto is_pair = [&](const Json& pair) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) {
      return false;
    }
    const double shape = pair[0].get<double>();
    return shape > last && std::isfinite(shape) && pair[1].get<double>() > 0 &&
           std::isfinite(pair[1].get<double>());
  };
  for (const Json& pair : list) {
    if (!is_pair(pair)) break;
    last = pair[0].get<double>();
    points.push_back({last, pair[1].get<double>()});
  }
  if (!list.is_array() || points.size() != list.size() || points.empty()) {
    degree.refuse("throughput", expected);
    return {{1, 1}};
  }
  return points;
}

ModuleCosts read_module(ArtifactObject module, const std::string& standard_name) {
  ModuleCosts costs;
  costs.name = module.text("name", standard_name);
  costs.layers = module.whole("layers", std::nullopt, {1, 1 << 20});
  costs.sample_flops = number(module, "sample_flops", std::nullopt);
  costs.sample_shape = number(module, "sample_shape", std::nullopt);
  for (ArtifactObject& degree : module.items("degrees")) {
    DegreeCosts at;
    at.tp = degree.whole("tp", std::nullopt, {1, 1 << 20});
    if (!costs.degrees.empty() && at.tp <= costs.degrees.back().tp) {
      degree.refuse("tp", "degrees in ascending order");
    }
    if (degree.find("throughput") != nullptr) {
      at.throughput = Throughput::table(read_points(degree));
    } else {
      const double peak = number(degree, "peak_flops_per_s", std::nullopt);
      at.throughput = Throughput::saturating(peak, number(degree, "half_shape", 0.0, true));
    }
    at.state_bytes = number(degree, "state_bytes", std::nullopt);
    at.activation_bytes = number(degree, "activation_bytes", std::nullopt);
    degree.refuse_unknown();
    costs.degrees.push_back(std::move(at));
  }
  if (costs.degrees.empty()) module.refuse("degrees", "a list of one degree or more");
  module.refuse_unknown();
  return costs;
}

std::vector<std::vector<SampleWork>> read_batches(ArtifactObject& root, std::int64_t samples) {
  const Json* given = root.find("batches");
  if (given == nullptr) return {};
  if (given->is_object()) {
    ArtifactObject drawn = root.object("batches", true);
    const std::int64_t count = drawn.whole("count", 2, {1, 64});
    const std::int64_t seed = drawn.whole("mixture_seed", 1, {0, std::int64_t{1} << 53});
    drawn.refuse_unknown();
    return draw_batches(count, samples, static_cast<std::uint64_t>(seed));
  }
  std::vector<std::vector<SampleWork>> batches;
  const auto is_sample = [](const Json& pair) {
    return pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number() &&
           pair[0].get<double>() >= 0 && pair[1].get<double>() > 0;
  };
  bool is_good = given->is_array() && !given->empty();
  for (std::size_t batch = 0; is_good && batch < given->size(); ++batch) {
    const Json& list = (*given)[batch];
    is_good = list.is_array() && std::ssize(list) == samples;
    batches.emplace_back();
    for (std::size_t sample = 0; is_good && sample < list.size(); ++sample) {
      is_good = is_sample(list[sample]);
      if (is_good)
        batches.back().push_back({list[sample][0].get<double>(), list[sample][1].get<double>()});
    }
  }
  if (is_good) return batches;
  root.refuse("batches", str("batches of ", samples, " samples [tiles, tokens], or ",
                             R"({"mixture_seed": 1, "count": 2})"));
  return {};
}

}  // namespace

TrainingProblem parse_cost_table(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, {.max_bytes = std::size_t{64} << 20});
  Problems problems;
  ArtifactObject root(json, where, "", problems);
  TrainingProblem problem;
  if (root.text("format", std::nullopt) != kCostTableFormat) {
    root.refuse("format", std::string(kCostTableFormat));
    problems.raise_if_any(where);
  }
  problem.costs.devices = root.whole("devices", std::nullopt, {1, 1 << 16});
  problem.costs.global_samples = root.whole("global_samples", std::nullopt, {1, 1 << 20});
  problem.costs.memory_bytes = number(root, "memory_bytes", std::nullopt);
  const double forward_share = number(root, "forward_share", 0.25);
  if (forward_share >= 1) root.refuse("forward_share", "a number below 1");
  problem.bytes_per_second = number(root, "bytes_per_s", 25e9);
  problem.feature_bytes = number(root, "feature_bytes", 0.0, true);
  problem.costs.encoder = read_module(root.object("encoder", true), "encoder");
  problem.costs.backbone = read_module(root.object("backbone", true), "backbone");
  problem.costs.encoder.forward_share = problem.costs.backbone.forward_share = forward_share;
  problem.batches = read_batches(root, problem.costs.global_samples);
  root.refuse_unknown();
  problems.raise_if_any(where);
  if (!problem.batches.empty()) set_mean_shapes(problem);
  return problem;
}

TrainingProblem read_cost_table(const std::string& path) {
  return parse_cost_table(read_given_file(path, kAnySize,
                                          {.what = "studies: file cannot be read",
                                           .expected = "a cost table, docs/formats/cost_table.md"}),
                          path);
}

}  // namespace tributary::studies
