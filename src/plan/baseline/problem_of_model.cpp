#include "plan/baseline/problem_of_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "plan/cost/module_cost.h"

namespace tributary::plan {
namespace {

using config::LayerKind;
using config::ModuleNode;

constexpr double kFeatureBytes = 2;       // of a value that travels
constexpr double kGridStep = 1.41421356;  // between the shapes of a table

/// The modules of a model that the published searches know.
struct TwoModules {
  std::vector<const ModuleNode*> encoder;  // the tower, then its projectors
  const ModuleNode* backbone = nullptr;
};

bool is_projector(const ModuleNode& node) {
  return std::all_of(node.layers.begin(), node.layers.end(), [](const config::LayerRun& run) {
    return run.shape.kind == LayerKind::kProjector;
  });
}

TwoModules modules_of(const config::ModuleGraph& model) {
  TwoModules modules = {.encoder = {}, .backbone = model.find("backbone")};
  TRIB_REQUIRE(modules.backbone != nullptr, .what = "plan: model has no backbone",
               .where = str("model ", model.name), .expected = "a module named backbone");
  std::vector<const ModuleNode*> projectors;
  for (const ModuleNode& node : model.modules) {
    if (&node == modules.backbone) continue;
    (is_projector(node) ? projectors : modules.encoder).push_back(&node);
  }
  TRIB_REQUIRE(modules.encoder.size() == 1,
               .what = "plan: the published searches place one encoder and a backbone",
               .where = str("model ", model.name),
               .found = str(modules.encoder.size(), " encoders"), .expected = "1");
  modules.encoder.insert(modules.encoder.end(), projectors.begin(), projectors.end());
  return modules;
}

/// What the batches ask of the modules on average.
struct MeanSizes {
  double samples = 0;
  double tokens = 0;           // of a sample
  double patches = 0;          // of a sample
  double item_patches = 1;     // of an item: one tile
  double attended_tokens = 1;  // sum of squares over sum: the length with the batches' attention
  double attended_patches = 1;
  double least_tokens = 0;  // of any sample
  double batch_tokens = 0;  // of the largest batch
  double batch_patches = 0;
};

MeanSizes measure(const std::vector<std::vector<SampleSize>>& batches) {
  MeanSizes sizes;
  double tokens_squared = 0;
  double patches_squared = 0;
  double items = 0;
  for (const std::vector<SampleSize>& batch : batches) {
    double batch_tokens = 0;
    double batch_patches = 0;
    for (const SampleSize& sample : batch) {
      const auto tokens = static_cast<double>(sample.tokens);
      const auto patches = static_cast<double>(sample.patches);
      batch_tokens += tokens;
      batch_patches += patches;
      tokens_squared += tokens * tokens;
      if (sample.items > 0)
        patches_squared += patches * patches / static_cast<double>(sample.items);
      items += static_cast<double>(sample.items);
      if (sizes.least_tokens == 0 || tokens < sizes.least_tokens) sizes.least_tokens = tokens;
    }
    sizes.samples += static_cast<double>(batch.size());
    sizes.tokens += batch_tokens;
    sizes.patches += batch_patches;
    sizes.batch_tokens = std::max(sizes.batch_tokens, batch_tokens);
    sizes.batch_patches = std::max(sizes.batch_patches, batch_patches);
  }
  TRIB_REQUIRE(sizes.tokens > 0 && sizes.patches > 0 && items > 0,
               .what = "plan: batches give encoder or backbone nothing to do",
               .found = str(sizes.patches, " patches, ", sizes.tokens, " tokens"),
               .expected = "samples with tokens, some of them with items");
  sizes.item_patches = sizes.patches / items;
  sizes.attended_tokens = tokens_squared / sizes.tokens;
  sizes.attended_patches = patches_squared / sizes.patches;
  sizes.tokens /= sizes.samples;
  sizes.patches /= sizes.samples;
  return sizes;
}

/// Blocks whose heads do not divide get some more, as padded ones would be.
ModuleNode pad_heads(ModuleNode node, std::int64_t tp) {
  for (config::LayerRun& run : node.layers) {
    const auto padded = [tp](std::int64_t heads) { return (heads + tp - 1) / tp * tp; };
    run.shape.heads = padded(run.shape.heads);
    run.shape.kv_heads = padded(run.shape.kv_heads);
  }
  return node;
}

bool can_cut(const ModuleNode& node, std::int64_t tp) {
  return std::all_of(node.layers.begin(), node.layers.end(), [tp](const config::LayerRun& run) {
    return run.shape.kind != LayerKind::kBlock ||
           (run.shape.heads % tp == 0 && run.shape.kv_heads % tp == 0);
  });
}

/// One of the two modules: what it costs at a degree and a shape.
class TableMaker {
 public:
  TableMaker(const config::Cluster& cluster, const ModelSetting& setting)
      : cluster_(cluster), setting_(setting) {}

  /// shape: tiles or tokens; `unit` patches or tokens of one, attending over `attended`
  ModuleCosts make(const std::vector<const ModuleNode*>& nodes, bool upstream_trains, double unit,
                   double attended, double mean, double least, double most) const {
    ModuleCosts costs = {.name = nodes.front()->name};
    costs.layers = 0;
    for (const ModuleNode* node : nodes) costs.layers += count_blocks(*node);
    costs.layers = std::max<std::int64_t>(costs.layers, 1);
    costs.sample_shape = mean;
    const bool is_backbone = nodes.front()->name == "backbone";
    for (std::int64_t tp = 1; tp <= cluster_.devices_per_node(); tp *= 2) {
      if (is_backbone && !can_cut(*nodes.front(), tp)) continue;
      const auto cost_at = [&](double shape) {
        const PassShape pass = {
            .tokens = shape * unit,
            .squared_tokens = shape * unit * std::min(attended, shape * unit),
            .sequences = std::max<std::int64_t>(1, std::llround(shape * unit / attended))};
        return sum(nodes, pass, tp, upstream_trains);
      };
      const ModuleCost at_mean = cost_at(mean);
      if (costs.degrees.empty()) {
        costs.sample_flops = at_mean.flops;
        costs.forward_share = share(at_mean.forward.count, at_mean.time().count);
        costs.gradient_share = share(at_mean.gradients.count, at_mean.state().count);
        costs.parameter_share = share(at_mean.parameters.count, at_mean.state().count);
        if (setting_.shard_optimizer)
          costs.sharded_share = share(at_mean.optimizer.count, at_mean.state().count);
      }
      DegreeCosts degree = {.tp = tp};
      degree.throughput = table(cost_at, costs.sample_flops / mean, tp, least, most);
      degree.state_bytes = static_cast<double>(at_mean.state().count);
      degree.activation_bytes = kept_of(nodes, at_mean, mean, unit, costs.layers);
      degree.transient_bytes = static_cast<double>(at_mean.transient.count) / mean;
      costs.degrees.push_back(std::move(degree));
    }
    return costs;
  }

  [[nodiscard]] bool trains(const ModuleNode& node) const {
    return std::find(setting_.frozen.begin(), setting_.frozen.end(), node.name) ==
           setting_.frozen.end();
  }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  }

  ModuleCost sum(const std::vector<const ModuleNode*>& nodes, const PassShape& pass,
                 std::int64_t tp, bool upstream_trains) const {
    ModuleCost sum;
    for (const ModuleNode* node : nodes) {
      const bool trains = this->trains(*node);
      sum += module_cost(
          cluster_, pad_heads(*node, tp), pass,
          {.placement = {.tp = tp, .sequence_parallel = setting_.sequence_parallel && tp > 1},
           .recompute = setting_.recompute,
           .trains = trains,
           .upstream_trains = upstream_trains});
      upstream_trains = upstream_trains || trains;
    }
    return sum;
  }

  /// Throughput of FLOPs that grow with the shape, so that FLOPs over throughput is the time.
  template <class CostAt>
  static Throughput table(const CostAt& cost_at, double flops_of_shape, std::int64_t tp,
                          double least, double most) {
    std::vector<Throughput::Point> points;
    for (double shape = least; points.empty() || points.back().shape < most; shape *= kGridStep) {
      const double seconds = 1e-9 * static_cast<double>(cost_at(shape).time().count);
      points.push_back({shape, flops_of_shape * shape / (seconds * static_cast<double>(tp))});
    }
    return Throughput::table(std::move(points));
  }

  /// Bytes of a layer and a tile or token; of a module without backward, its features.
  static double kept_of(const std::vector<const ModuleNode*>& nodes, const ModuleCost& cost,
                        double mean, double unit, std::int64_t layers) {
    const config::LayerShape& last = nodes.back()->layers.back().shape;
    const double features = kFeatureBytes * unit / static_cast<double>(last.merge) *
                            static_cast<double>(last.width) / static_cast<double>(layers);
    return std::max(static_cast<double>(cost.kept.count) / (mean * static_cast<double>(layers)),
                    features);
  }

  const config::Cluster& cluster_;
  const ModelSetting& setting_;
};

void check_setting(const config::ModuleGraph& model, const config::Cluster& cluster,
                   const ModelSetting& setting) {
  TRIB_REQUIRE(setting.devices >= 0 && setting.devices <= cluster.devices,
               .what = "plan: cluster does not have so many devices",
               .where = str("cluster ", cluster.name), .found = str(setting.devices, " devices"),
               .expected = str("1 to ", cluster.devices));
  for (const std::string& name : setting.frozen) {
    TRIB_REQUIRE(model.find(name) != nullptr, .what = "plan: module to freeze is not in the model",
                 .where = str("model ", model.name), .found = name,
                 .expected = "a module of the model");
  }
  TRIB_REQUIRE(!setting.batches.empty() && !setting.batches.front().empty(),
               .what = "plan: no batch to judge plans by");
  for (const std::vector<SampleSize>& batch : setting.batches) {
    TRIB_REQUIRE(batch.size() == setting.batches.front().size(),
                 .what = "plan: batches of different sizes",
                 .found = str(setting.batches.front().size(), " and ", batch.size(), " samples"));
  }
}

/// The slowest link that joins so many devices.
double link_rate(const config::Cluster& cluster, std::int64_t devices) {
  double rate = 0;
  for (const config::LinkLevel& level : cluster.levels) {
    rate = level.seconds_per_byte > 0 ? 1 / level.seconds_per_byte : level.bytes_per_s;
    if (level.ranks >= devices) break;
  }
  TRIB_REQUIRE(rate > 0, .what = "plan: cluster has no links",
               .where = str("cluster ", cluster.name), .expected = "levels with a rate");
  return rate;
}

}  // namespace

TrainingProblem problem_of_model(const config::ModuleGraph& model, const config::Cluster& cluster,
                                 const ModelSetting& setting) {
  check_setting(model, cluster, setting);
  const TwoModules modules = modules_of(model);
  const MeanSizes sizes = measure(setting.batches);
  const TableMaker tables(cluster, setting);
  TrainingProblem problem;
  problem.costs.devices = setting.devices == 0 ? cluster.devices : setting.devices;
  problem.costs.global_samples = std::ssize(setting.batches.front());
  const Bytes memory = setting.memory.value_or(cluster.device.memory - cluster.device.reserve);
  problem.costs.memory_bytes = static_cast<double>(memory.count);
  const double tile = sizes.item_patches;
  problem.costs.encoder = tables.make(modules.encoder, false, tile, sizes.attended_patches,
                                      sizes.patches / tile, 0.25, sizes.batch_patches / tile);
  const bool encoder_trains =
      std::any_of(modules.encoder.begin(), modules.encoder.end(),
                  [&](const ModuleNode* node) { return tables.trains(*node); });
  problem.encoder_trains = encoder_trains;
  problem.costs.backbone =
      tables.make({modules.backbone}, encoder_trains, 1, sizes.attended_tokens, sizes.tokens,
                  std::max(1.0, sizes.least_tokens / 4), sizes.batch_tokens);
  const config::LayerShape& last = modules.encoder.back()->layers.back().shape;
  const bool is_merged = is_projector(*modules.encoder.back());
  problem.feature_bytes = kFeatureBytes * tile / static_cast<double>(is_merged ? last.merge : 1) *
                          static_cast<double>(last.width);
  problem.given = setting.given;
  problem.capacity_tokens = setting.capacity_tokens;
  problem.bytes_per_second = link_rate(cluster, problem.costs.devices);
  problem.devices_per_node = std::min(cluster.devices_per_node(), problem.costs.devices);
  problem.node_bytes_per_second = link_rate(cluster, 1);
  for (const std::vector<SampleSize>& batch : setting.batches) {
    problem.batches.emplace_back();
    for (const SampleSize& sample : batch) {
      problem.batches.back().push_back(
          {static_cast<double>(sample.patches) / tile, static_cast<double>(sample.tokens)});
    }
  }
  check_problem(problem);
  return problem;
}

std::vector<std::vector<SampleSize>> draw_mixture_batches(std::int64_t batches,
                                                          std::int64_t global_samples,
                                                          std::uint64_t seed) {
  std::vector<std::vector<SampleSize>> drawn;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    drawn.push_back(draw_mixture(seed, static_cast<std::uint64_t>(batch), global_samples));
  }
  return drawn;
}

}  // namespace tributary::plan
