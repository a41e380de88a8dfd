#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/random.h"
#include "plan/sharing/staging.h"

namespace tributary::plan {

/// A staging by trying everything: no bounds, no memory of failures.
class StagingOracle {
 public:
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;

  StagingOracle(const SharingProblem& problem, bool is_aligned)
      : problem_(problem), is_aligned_(is_aligned), ancestors_(ancestors_of(problem)) {}

  /// The least time of modules that run together: all options on all devices.
  std::int64_t stage(ModuleSet modules) {
    const auto known = stages_.find(modules);
    if (known != stages_.end()) return known->second;
    best_ = kNever;
    Devices devices(static_cast<std::size_t>(problem_.devices));
    place(modules, devices, {});
    return stages_[modules] = best_;
  }

  /// The least sum over all sequences of stages.
  std::int64_t staging(ModuleSet done = 0) {
    const auto all = static_cast<ModuleSet>((std::uint64_t{1} << problem_.modules.size()) - 1);
    if (done == all) return 0;
    const auto known = rest_.find(done);
    if (known != rest_.end()) return known->second;
    ModuleSet ready = 0;
    for (std::size_t module = 0; module < problem_.modules.size(); ++module) {
      if ((done >> module & 1) == 0 && (ancestors_[module] & ~done) == 0)
        ready |= ModuleSet{1} << module;
    }
    std::int64_t best = kNever;
    for (ModuleSet part = ready; part != 0; part = (part - 1) & ready) {
      const std::int64_t time = stage(part);
      if (time < kNever) best = std::min(best, time + staging(done | part));
    }
    return rest_[done] = best;
  }

 private:
  struct Device {
    std::int64_t units = 0;
    std::int64_t memory = 0;
    DeviceTraffic traffic = {};
    friend bool operator<(const Device& a, const Device& b) {
      return std::tie(a.units, a.memory, a.traffic.sum) <
             std::tie(b.units, b.memory, b.traffic.sum);
    }
  };
  using Devices = std::vector<Device>;
  struct Choice {
    std::int64_t time;
    double bandwidth;
    std::vector<std::int64_t> devices;
  };

  void place(ModuleSet rest, Devices& devices, std::vector<Choice> chosen) {
    if (rest == 0) {
      std::int64_t value = 0;
      for (const Choice& choice : chosen) {
        for (const std::int64_t device : choice.devices) {
          value = std::max(value, slowed(problem_.interference, {choice.time}, choice.bandwidth,
                                         devices[device].traffic)
                                      .count);
        }
      }
      best_ = std::min(best_, value);
      return;
    }
    const int module = std::countr_zero(rest);
    for (std::int64_t width = 0; width < problem_.widths(); ++width) {
      for (std::int64_t share = 1; share <= problem_.units; ++share) {
        const std::int64_t time = problem_.time(module, width, share).count;
        if (time >= best_) continue;
        for (const auto& block : blocks(std::int64_t{1} << width)) {
          Devices next = devices;
          bool fits = true;
          for (const std::int64_t device : block) {
            fits = fits && take(next[device], module, width, share);
          }
          if (!fits) continue;
          chosen.push_back({time, bandwidth_of(module, share), block});
          place(rest & (rest - 1), next, chosen);
          chosen.pop_back();
        }
      }
    }
  }

  [[nodiscard]] double bandwidth_of(int module, std::int64_t share) const {
    const SharedModule& known = problem_.modules[module];
    return known.bandwidth.empty() ? 0 : known.bandwidth[share - 1];
  }

  bool take(Device& device, int module, std::int64_t width, std::int64_t share) const {
    const SharedModule& added = problem_.modules[module];
    device.units += share;
    if (!added.memory.empty()) device.memory += added.memory[width].count;
    device.traffic.add(bandwidth_of(module, share));
    return device.units <= problem_.units &&
           (!problem_.memory || device.memory <= problem_.memory->count);
  }

  /// Aligned blocks, or every choice of so many devices.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> blocks(std::int64_t devices) const {
    std::vector<std::vector<std::int64_t>> found;
    for (std::uint64_t set = 0; set < std::uint64_t{1} << problem_.devices; ++set) {
      if (std::popcount(set) != devices) continue;
      const int first = std::countr_zero(set);
      const bool is_block =
          set >> first == (std::uint64_t{1} << devices) - 1 && first % devices == 0;
      if (is_aligned_ && !is_block) continue;
      found.emplace_back();
      for (std::int64_t device = 0; device < problem_.devices; ++device) {
        if (set >> device & 1) found.back().push_back(device);
      }
    }
    return found;
  }

  const SharingProblem& problem_;
  bool is_aligned_;
  std::vector<ModuleSet> ancestors_;
  std::map<ModuleSet, std::int64_t> stages_;
  std::map<ModuleSet, std::int64_t> rest_;
  std::int64_t best_ = kNever;
};

/// Modules as the reference describes them: scaling with devices, a share from which more helps no
/// more, a cost of synchronisation.
inline SharingProblem random_sharing_problem(RandomStream& random, std::int64_t modules,
                                             std::int64_t devices, std::int64_t units) {
  SharingProblem problem = {.modules = {}, .devices = devices, .units = units};
  const double scale = static_cast<double>(devices) / 4;
  for (std::int64_t index = 0; index < modules; ++index) {
    const double work = std::exp(std::log(8.0) + random.uniform() * std::log(15.0)) * scale;
    const double enough = 0.15 + 0.85 * random.uniform();
    const double sync = 0.2 + random.uniform();
    const double traffic = 0.1 + 0.6 * random.uniform();
    SharedModule module = {.name = "m" + std::to_string(index)};
    for (std::int64_t width = 0; width < problem.widths(); ++width) {
      for (std::int64_t unit = 1; unit <= units; ++unit) {
        const double share = static_cast<double>(unit) / static_cast<double>(units);
        const double slow = share >= enough ? 1.0 : std::pow(enough / share, 0.95);
        const double milliseconds = work / std::pow(double(std::int64_t{1} << width), 0.92) * slow *
                                        (1 + 0.06 * (1 - share)) +
                                    sync * static_cast<double>(width) + 0.3;
        module.times.push_back({std::llround(1e6 * milliseconds)});
      }
    }
    for (std::int64_t unit = 1; unit <= units; ++unit) {
      module.bandwidth.push_back(traffic *
                                 std::min(1.0, static_cast<double>(unit) / double(units) / enough));
    }
    problem.modules.push_back(std::move(module));
  }
  return problem;
}

/// Adds edges from lower to higher modules.
inline void add_random_edges(RandomStream& random, SharingProblem& problem, double share) {
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    for (std::size_t before = 0; before < module; ++before) {
      if (random.uniform() < share) {
        problem.modules[module].after.push_back(static_cast<std::int32_t>(before));
      }
    }
  }
}

/// Whether stages run every module once, in order, within units and memory, in the times they say.
inline std::string fault_of(const SharingProblem& problem, const Staging& staging) {
  const std::vector<ModuleSet> ancestors = ancestors_of(problem);
  ModuleSet done = 0;
  std::int64_t sum = 0;
  for (const SharedStage& stage : staging.stages) {
    std::vector<std::int64_t> units(static_cast<std::size_t>(problem.devices));
    std::vector<std::int64_t> memory(units.size());
    std::vector<DeviceTraffic> traffic(units.size());
    ModuleSet modules = 0;
    for (const PlacedModule& place : stage.placed) {
      const SharedModule& module = problem.modules.at(place.module);
      if ((ancestors[place.module] & ~done) != 0) return module.name + " comes too early";
      modules |= ModuleSet{1} << place.module;
      if (place.first_device % place.devices != 0) return module.name + " is not aligned";
      for (std::int64_t i = 0; i < place.devices; ++i) {
        units.at(place.first_device + i) += place.share;
        const auto width = std::countr_zero(static_cast<std::uint64_t>(place.devices));
        if (!module.memory.empty()) memory[place.first_device + i] += module.memory[width].count;
        traffic[place.first_device + i].add(module.bandwidth[place.share - 1]);
      }
    }
    std::int64_t slowest = 0;
    for (const PlacedModule& place : stage.placed) {
      const auto width = std::countr_zero(static_cast<std::uint64_t>(place.devices));
      std::int64_t time = 0;
      for (std::int64_t i = 0; i < place.devices; ++i) {
        time = std::max(time,
                        slowed(problem.interference, problem.time(place.module, width, place.share),
                               problem.modules[place.module].bandwidth[place.share - 1],
                               traffic[place.first_device + i])
                            .count);
      }
      if (time != place.time.count) return "a module has another time";
      slowest = std::max(slowest, time);
    }
    if (modules != stage.modules || (modules & done) != 0) return "modules are lost or run twice";
    if (slowest != stage.time.count) return "a stage has another time";
    if (*std::max_element(units.begin(), units.end()) > problem.units) return "too many units";
    if (problem.memory && *std::max_element(memory.begin(), memory.end()) > problem.memory->count) {
      return "too much memory";
    }
    done |= modules;
    sum += slowest;
  }
  if (std::popcount(done) != static_cast<int>(problem.modules.size())) return "modules are missing";
  return sum == staging.certificate.value.count ? "" : "the sum is another one";
}

}  // namespace tributary::plan
