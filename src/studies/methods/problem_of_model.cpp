#include "studies/methods/problem_of_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "cost/stages/place_layers.h"
#include "simulate/samples/mean_sizes.h"
#include "studies/methods/module_tables.h"

namespace tributary::studies {
namespace {

using config::ModuleNode;

/// The modules of a model as the published searches see it: several encoders form one, end to end.
struct TwoModules {
  std::vector<ModulePart> encoder;
  ModulePart backbone;
};

/// The encoder in front of a projector: the first one where no edge says.
ModulePart& part_of(std::vector<ModulePart>& parts, const config::ModuleGraph& model,
                    const ModuleNode& projector) {
  for (ModulePart& part : parts) {
    for (const config::ModuleEdge& edge : model.edges) {
      const bool feeds = std::any_of(part.nodes.begin(), part.nodes.end(),
                                     [&](const auto* node) { return node->name == edge.from; });
      if (feeds && edge.to == projector.name) return part;
    }
  }
  return parts.front();
}

TwoModules modules_of(const config::ModuleGraph& model) {
  TwoModules modules;
  const ModuleNode* backbone = model.find("backbone");
  TRIB_REQUIRE(backbone != nullptr, .what = "studies: model has no backbone",
               .where = str("model ", model.name), .expected = "a module named backbone");
  modules.backbone.nodes = {backbone};
  for (const ModuleNode& node : model.modules)
    if (&node != backbone && !is_projector(node))
      modules.encoder.push_back({.nodes = {&node}, .of_sound = cost::hears(node)});
  TRIB_REQUIRE(!modules.encoder.empty(),
               .what = "studies: the published searches place an encoder and a backbone",
               .where = str("model ", model.name), .found = "0 encoders",
               .expected = "1 or more, which run as one");
  for (const ModuleNode& node : model.modules)
    if (&node != backbone && is_projector(node))
      part_of(modules.encoder, model, node).nodes.push_back(&node);
  // Without images, sound counts as images do.
  if (std::all_of(modules.encoder.begin(), modules.encoder.end(),
                  [](const ModulePart& part) { return part.of_sound; }))
    for (ModulePart& part : modules.encoder) part.of_sound = false;
  return modules;
}

const simulate::MeanSizes& sizes_of(const ModulePart& part, const simulate::BatchSizes& sizes) {
  return part.of_sound ? sizes.frames : sizes.patches;
}

void check_setting(const config::ModuleGraph& model, const config::Cluster& cluster,
                   const ModelSetting& setting) {
  TRIB_REQUIRE(setting.devices >= 0 && setting.devices <= cluster.devices,
               .what = "studies: cluster does not have so many devices",
               .where = str("cluster ", cluster.name), .found = str(setting.devices, " devices"),
               .expected = str("1 to ", cluster.devices));
  for (const std::string& name : setting.frozen) {
    TRIB_REQUIRE(
        model.find(name) != nullptr, .what = "studies: module to freeze is not in the model",
        .where = str("model ", model.name), .found = name, .expected = "a module of the model");
  }
  TRIB_REQUIRE(!setting.batches.empty() && !setting.batches.front().empty(),
               .what = "studies: no batch to judge plans by");
  for (const std::vector<simulate::SampleSize>& batch : setting.batches) {
    TRIB_REQUIRE(batch.size() == setting.batches.front().size(),
                 .what = "studies: batches of different sizes",
                 .found = str(setting.batches.front().size(), " and ", batch.size(), " samples"));
  }
}

/// A tile is a mean item of images, or of sound where there are none; every encoder gets what it
/// has on average for each tile. Returns the tiles of a mean sample.
double set_units(TwoModules& modules, const simulate::BatchSizes& sizes) {
  const bool has_images = sizes.patches.mean > 0;
  const bool has_work =
      std::any_of(modules.encoder.begin(), modules.encoder.end(),
                  [&](const ModulePart& part) { return sizes_of(part, sizes).mean > 0; });
  TRIB_REQUIRE(sizes.tokens.mean > 0 && has_work,
               .what = "studies: batches give encoder or backbone nothing to do",
               .found = str(sizes.patches.mean, " patches, ", sizes.frames.mean,
                            " positions of sound, ", sizes.tokens.mean, " tokens"),
               .expected = "samples with tokens, some of them with items");
  const bool has_ear = std::ranges::any_of(modules.encoder, &ModulePart::of_sound);
  TRIB_REQUIRE(sizes.frames.mean == 0 || has_ear,
               .what = "studies: model does not encode sound beside images", .where = "batches",
               .found = str(sizes.frames.mean, " positions of sound of a mean sample"),
               .expected = "none; sound alone is given as patches");
  for (const ModulePart& part : modules.encoder) {
    TRIB_REQUIRE(sizes_of(part, sizes).mean > 0,
                 .what = "studies: batches give an encoder nothing to do",
                 .where = str("module ", part.nodes.front()->name),
                 .found = part.of_sound ? "0 positions of sound" : "0 patches",
                 .expected = "some samples with items of its kind",
                 .fix = "give samples that it works on, or leave it out of the model");
  }
  const simulate::MeanSizes& base = has_images ? sizes.patches : sizes.frames;
  const double tiles = base.mean / base.item;
  for (ModulePart& part : modules.encoder) {
    const simulate::MeanSizes& own = sizes_of(part, sizes);
    part.unit = &own == &base ? own.item : own.mean / tiles;
    part.attended = sizes_of(part, sizes).attended;
  }
  modules.backbone.attended = sizes.tokens.attended;
  return tiles;
}

/// Shapes of samples in one kind of item. All samples together have the shape of their units; a
/// single one grows with the squares of its items as far as attention does.
class ShapeCounter {
 public:
  ShapeCounter() = default;
  /// mean_shape: of a sample; attention: its fraction of the time
  ShapeCounter(const simulate::MeanSizes& sizes, double mean_shape, double attention)
      : of_unit_(mean_shape / sizes.mean), attended_(sizes.attended), attention_(attention) {}

  [[nodiscard]] double operator()(std::int64_t units, std::int64_t items) const {
    if (units == 0) return 0;
    const auto size = static_cast<double>(units);
    const double length = size / static_cast<double>(std::max<std::int64_t>(items, 1));
    return of_unit_ * size * (1 + attention_ * (length / attended_ - 1));
  }

 private:
  double of_unit_ = 0;
  double attended_ = 1;
  double attention_ = 0;
};

/// The work of samples for both modules: tiles by each encoder's part of the work. The parts are
/// those of a whole batch, where work and not the host determines the time.
class SampleCounter {
 public:
  /// samples: of a batch; tiles: of a mean sample
  SampleCounter(const TwoModules& modules, const simulate::BatchSizes& sizes,
                const ModuleTables& tables, double samples, double tiles) {
    for (const bool of_sound : {false, true}) {
      ShapeCounter& counter = of_sound ? sound_ : images_;
      double all = 0;
      double mine = 0;
      double attention = 0;
      for (const ModulePart& part : modules.encoder) {
        const double flops = tables.flops_of(part, tiles);
        all += flops;
        if (part.of_sound != of_sound) continue;
        mine += flops;
        attention += flops * tables.attention_share(part, samples * tiles);
      }
      if (mine > 0)
        counter = {of_sound ? sizes.frames : sizes.patches, tiles * mine / all, attention / mine};
    }
    tokens_ = {sizes.tokens, sizes.tokens.mean,
               tables.attention_share(modules.backbone, samples * sizes.tokens.mean)};
  }

  [[nodiscard]] SampleWork operator()(const simulate::SampleSize& sample) const {
    return {.tiles = images_(sample.patches, sample.items) + sound_(sample.frames, sample.clips),
            .tokens = tokens_(sample.tokens, 1),
            .length = static_cast<double>(sample.tokens)};
  }

 private:
  ShapeCounter images_, sound_, tokens_;
};

/// The slowest link that joins `devices` devices.
double link_rate(const config::Cluster& cluster, std::int64_t devices) {
  double rate = 0;
  for (const config::LinkLevel& level : cluster.levels) {
    rate = level.seconds_per_byte > 0 ? 1 / level.seconds_per_byte : level.bytes_per_s;
    if (level.ranks >= devices) break;
  }
  TRIB_REQUIRE(rate > 0, .what = "studies: cluster has no links",
               .where = str("cluster ", cluster.name), .expected = "levels with a rate");
  return rate;
}

}  // namespace

TrainingProblem problem_of_model(const config::ModuleGraph& model, const config::Cluster& cluster,
                                 const ModelSetting& setting) {
  check_setting(model, cluster, setting);
  TwoModules modules = modules_of(model);
  const simulate::BatchSizes sizes(setting.batches);
  const ModuleTables tables(cluster, setting);
  const double tiles = set_units(modules, sizes);
  TrainingProblem problem;
  problem.encoder_trains = false;
  problem.costs.devices = setting.devices == 0 ? cluster.devices : setting.devices;
  problem.costs.global_samples = std::ssize(setting.batches.front());
  const Bytes memory = setting.memory.value_or(cluster.device.memory - cluster.device.reserve);
  problem.costs.memory_bytes = static_cast<double>((memory - tables.process()).count);
  const SampleCounter work_of(modules, sizes, tables, double(problem.costs.global_samples), tiles);
  double max = 0;
  for (const std::vector<simulate::SampleSize>& batch : setting.batches) {
    problem.batches.emplace_back();
    double sum = 0;
    for (const simulate::SampleSize& sample : batch) {
      problem.batches.back().push_back(work_of(sample));
      sum += problem.batches.back().back().tiles;
    }
    max = std::max(max, sum);
  }
  problem.costs.encoder = tables.make(modules.encoder, false, tiles, 0.25, max);
  problem.feature_bytes = 0;
  for (const ModulePart& part : modules.encoder) {
    for (const ModuleNode* node : part.nodes)
      problem.encoder_trains = problem.encoder_trains || tables.trains(*node);
    problem.feature_bytes += tables.value_bytes() * features_of_tile(part);
  }
  problem.costs.backbone =
      tables.make({modules.backbone}, problem.encoder_trains, sizes.tokens.mean,
                  std::max(1.0, sizes.tokens.min / 4), sizes.tokens.batch);
  problem.given = setting.given;
  problem.capacity_tokens = setting.capacity_tokens;
  problem.bytes_per_second = link_rate(cluster, problem.costs.devices);
  problem.devices_per_node = std::min(cluster.devices_per_node(), problem.costs.devices);
  problem.node_bytes_per_second = link_rate(cluster, 1);
  check_problem(problem);
  return problem;
}

std::vector<std::vector<simulate::SampleSize>> draw_mixture_batches(std::int64_t batches,
                                                                    std::int64_t global_samples,
                                                                    std::uint64_t seed) {
  std::vector<std::vector<simulate::SampleSize>> drawn;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    drawn.push_back(
        simulate::draw_mixture(seed, static_cast<std::uint64_t>(batch), global_samples));
  }
  return drawn;
}

}  // namespace tributary::studies
