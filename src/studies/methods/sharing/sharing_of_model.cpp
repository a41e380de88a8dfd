#include "studies/methods/sharing/sharing_of_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include "core/error.h"
#include "cost/collective_cost.h"
#include "cost/module_cost.h"

namespace tributary::studies {
namespace {

cost::PassShape pass_of(std::int64_t tokens, std::int64_t samples) {
  const auto length = static_cast<double>(tokens);
  const auto count = static_cast<double>(samples);
  return {
      .tokens = length * count, .squared_tokens = length * length * count, .sequences = samples};
}

/// Memory bandwidth [bytes/s] of kernels that run on all units.
double memory_rate(const config::DeviceModel& device) {
  return device.memory_bytes_per_s * device.memory_share;
}

/// A part of a device as a device: with fewer units, and with as much of the memory bandwidth of
/// the whole as the cache allows them.
config::Cluster cut_device(config::Cluster cluster, double share) {
  config::DeviceModel& device = cluster.device;
  const double drawn = device.cache_bytes_per_s > 0
                           ? std::min(1.0, share * device.cache_bytes_per_s / memory_rate(device))
                           : share;
  device.matrix_flops_per_s *= share;
  device.matrix_ramp_flops *= share;
  device.memory_bytes_per_s *= drawn;
  return cluster;
}

/// How the modules train, each after those that feed it.
std::vector<cost::ModuleExecution> executions_of(const config::ModuleGraph& model,
                                                 const SharingSetting& setting) {
  std::vector<cost::ModuleExecution> executions;
  std::set<std::string> trained;  // modules that train or come after one that does
  for (const config::ModuleNode& node : model.modules) {
    const bool upstream_trains =
        std::any_of(model.edges.begin(), model.edges.end(), [&](const config::ModuleEdge& edge) {
          return edge.to == node.name && trained.contains(edge.from);
        });
    const bool trains =
        std::find(setting.frozen.begin(), setting.frozen.end(), node.name) == setting.frozen.end();
    if (trains || upstream_trains) trained.insert(node.name);
    executions.push_back(
        {.recompute = setting.recompute, .trains = trains, .upstream_trains = upstream_trains});
  }
  return executions;
}

/// A module of a model with its samples divided over devices.
class DataParallelModule {
 public:
  DataParallelModule(const config::ModuleNode& node, const cost::ModuleExecution& execution,
                     std::int64_t tokens, std::int64_t global_samples)
      : node_(node), execution_(execution), tokens_(tokens), global_samples_(global_samples) {}

  /// Samples are not divided.
  [[nodiscard]] std::int64_t samples_of_slowest(std::int64_t devices) const {
    return (global_samples_ + devices - 1) / devices;
  }

  /// Costs on one of `devices` devices, or on a part of it.
  [[nodiscard]] cost::ModuleCost cost(const config::Cluster& part, std::int64_t samples,
                                      std::int64_t devices) const {
    cost::ModuleExecution execution = execution_;
    execution.placement.optimizer_shards = devices;
    return cost::module_cost(part, node_, pass_of(tokens_, samples), execution);
  }

  [[nodiscard]] Nanoseconds time(const config::Cluster& cluster, const config::Cluster& part,
                                 std::int64_t devices) const {
    const cost::ModuleCost cost = this->cost(part, samples_of_slowest(devices), devices);
    if (!execution_.trains) return cost.time();
    Nanoseconds exposed;
    if (devices > 1) {
      const Nanoseconds reduction =
          cost::collective_cost(cluster, config::CollectiveOp::kAllReduce,
                                cost::group_of(devices, 1, cluster.devices_per_node()),
                                cost.reduced)
              .time;
      exposed = std::max(Nanoseconds{}, reduction - cost.backward);
    }
    return cost.time() + exposed + update_time(part, cost, devices);
  }

  /// The fraction of this time in which kernels run, as the mean of its devices: without the host
  /// each pass takes the device's own time, and some devices have one sample less than the slowest.
  [[nodiscard]] double busy(const config::Cluster& cluster, const config::Cluster& part,
                            std::int64_t devices) const {
    config::Cluster free = part;
    free.device.launch_s = 0;
    const auto kernels = [&](std::int64_t samples) {
      const cost::ModuleCost cost = this->cost(free, samples, devices);
      const Nanoseconds update =
          execution_.trains ? update_time(free, cost, devices) : Nanoseconds{};
      return static_cast<double>((samples > 0 ? cost.time() + update : update).count);
    };
    const std::int64_t max = samples_of_slowest(devices);
    const auto slowest = static_cast<double>(global_samples_ - (max - 1) * devices);
    const double sum = slowest * kernels(max) + (double(devices) - slowest) * kernels(max - 1);
    const auto whole = static_cast<double>(time(cluster, part, devices).count);
    return std::min(1.0, sum / double(devices) / whole);
  }

  /// Fraction of the memory bandwidth that it uses on a part of its devices, over its time.
  [[nodiscard]] double bandwidth(const config::Cluster& cluster, const config::Cluster& part,
                                 std::int64_t devices) const {
    constexpr double kSlower = 0.01;
    config::Cluster slow = part;
    slow.device.memory_bytes_per_s /= 1 + kSlower;
    const auto time_on = [&](const config::Cluster& on) {
      return static_cast<double>(time(cluster, on, devices).count);
    };
    // The part of its time that memory bounds, times the rate that it then uses.
    const double bound = (time_on(slow) / time_on(part) - 1) / kSlower;
    return std::clamp(bound * memory_rate(part.device) / cluster.device.memory_bytes_per_s, 0.0,
                      1.0);
  }

 private:
  /// Two bytes a parameter; the optimizer's work is sharded like its state.
  static Nanoseconds update_time(const config::Cluster& part, const cost::ModuleCost& cost,
                                 std::int64_t devices) {
    return cost::optimizer_time(
        part.device, static_cast<double>(cost.parameters.count) / 2 / static_cast<double>(devices));
  }

  const config::ModuleNode& node_;
  cost::ModuleExecution execution_;
  std::int64_t tokens_;
  std::int64_t global_samples_;
};

void check_setting(const config::ModuleGraph& model, const SharingSetting& setting) {
  const auto where = [&](const char* key) {
    return setting.name.empty() ? key : str("setting ", setting.name, " ", key);
  };
  TRIB_REQUIRE(!model.modules.empty() && std::ssize(model.modules) <= plan::kMaxSharedModules,
               .what = "studies: value cannot be used", .where = where("modules of the model"),
               .found = str(model.modules.size()),
               .expected = str("1 to ", plan::kMaxSharedModules));
  TRIB_REQUIRE(
      setting.devices >= 1 && std::has_single_bit(static_cast<std::uint64_t>(setting.devices)) &&
          setting.devices <= plan::kMaxSharingDevices,
      .what = "studies: value cannot be used", .where = where("devices"),
      .found = str(setting.devices), .expected = str("1, 2, 4, ... ", plan::kMaxSharingDevices));
  const std::int64_t max_units = plan::max_share_units(setting.devices);
  TRIB_REQUIRE(setting.units >= 1 && setting.units <= max_units,
               .what = "studies: value cannot be used", .where = where("share_units"),
               .found = str(setting.units), .expected = str("1 to ", max_units));
  TRIB_REQUIRE(setting.tokens.size() == model.modules.size(),
               .what = "studies: tokens are not given for each module", .where = where("tokens"),
               .found = str(setting.tokens.size()), .expected = str(model.modules.size()));
  TRIB_REQUIRE(setting.global_samples >= 1, .what = "studies: value cannot be used",
               .where = where("global_samples"), .found = str(setting.global_samples),
               .expected = "1 or more");
}

}  // namespace

plan::SharingProblem sharing_of_model(const config::ModuleGraph& model,
                                      const config::Cluster& cluster,
                                      const SharingSetting& setting) {
  check_setting(model, setting);
  plan::SharingProblem problem;
  problem.devices = setting.devices;
  problem.units = setting.units;
  problem.memory = setting.memory.value_or(cluster.device.memory - cluster.device.reserve);
  const bool shares_memory = cluster.device.cache_bytes_per_s > 0;
  // While two modules want the whole memory bandwidth at once, each gets half. That is so in a
  // fraction of the time that is the product of both, and costs it again; likewise for several.
  if (shares_memory) problem.interference = {plan::Interference::Form::kPairwise, 0, 0, 1};
  std::vector<config::Cluster> parts;
  for (std::int64_t unit = 1; unit <= setting.units; ++unit)
    parts.push_back(cut_device(cluster, double(unit) / double(setting.units)));
  const std::vector<cost::ModuleExecution> executions = executions_of(model, setting);
  for (std::size_t module = 0; module < model.modules.size(); ++module) {
    const DataParallelModule mine(model.modules[module], executions[module], setting.tokens[module],
                                  setting.global_samples);
    plan::SharedModule shared{.name = model.modules[module].name};
    for (const config::ModuleEdge& edge : model.edges) {
      if (edge.to != shared.name) continue;
      const auto before = std::find_if(model.modules.begin(), model.modules.end(),
                                       [&](const auto& node) { return node.name == edge.from; }) -
                          model.modules.begin();
      TRIB_REQUIRE(before < static_cast<std::ptrdiff_t>(module),
                   .what = "studies: module stands before one that it depends on",
                   .where = str("model ", model.name), .found = shared.name,
                   .expected = str("after ", edge.from));
      shared.after.push_back(static_cast<std::int32_t>(before));
    }
    for (std::int64_t devices = 1; devices <= setting.devices; devices *= 2) {
      for (const config::Cluster& part : parts) {
        shared.times.push_back(mine.time(cluster, part, devices));
        shared.busy.push_back(mine.busy(cluster, part, devices));
        shared.bandwidth.push_back(shares_memory ? mine.bandwidth(cluster, part, devices) : 0.0);
      }
      // All forwards come before all backwards, so kept bytes stay. Gradients are those of one
      // pass: they are not accumulated, so they are held in the dtype in which they are sent.
      const cost::ModuleCost cost = mine.cost(cluster, mine.samples_of_slowest(devices), devices);
      shared.resident.push_back(cost.parameters + cost.reduced + cost.optimizer + cost.kept);
      shared.memory.push_back(shared.resident.back() + cost.transient);
    }
    for (const auto& group : model.modules[module].layers) shared.layers += group.layers;
    for (std::int64_t devices = 1; devices <= setting.devices; ++devices) {
      shared.whole.push_back(mine.time(cluster, cluster, devices));
      shared.whole_busy.push_back(mine.busy(cluster, cluster, devices));
    }
    problem.modules.push_back(std::move(shared));
  }
  check_problem(problem);
  return problem;
}

double sharing_flops(const config::ModuleGraph& model, const config::Cluster& cluster,
                     const SharingSetting& setting) {
  check_setting(model, setting);
  double flops = 0;
  const std::vector<cost::ModuleExecution> executions = executions_of(model, setting);
  for (std::size_t module = 0; module < model.modules.size(); ++module) {
    flops += cost::module_cost(cluster, model.modules[module],
                               pass_of(setting.tokens[module], setting.global_samples),
                               executions[module])
                 .flops;
  }
  return flops;
}

}  // namespace tributary::studies
