#include "plan/baseline/sharing/sharing_memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/text.h"

namespace tributary::plan {
namespace {

Bytes of_width(const std::vector<Bytes>& table, std::int64_t devices) {
  if (table.empty()) return {};
  return table[std::bit_width(static_cast<std::uint64_t>(devices)) - 1];
}

/// What lies on each device while stages come one after another.
class DeviceMemory {
 public:
  explicit DeviceMemory(const SharingProblem& problem)
      : problem_(problem), devices_(static_cast<std::size_t>(problem.devices)) {
    for (Device& device : devices_) device.kept.resize(problem.modules.size());
  }

  /// A module on `width` devices, of which this is one.
  void put(std::size_t device, std::int32_t module, std::int64_t width) {
    Device& on = devices_[device];
    const SharedModule& shared = problem_.modules[module];
    const Bytes kept = of_width(shared.resident, width);
    on.kept[module] = std::max(on.kept[module], kept);
    on.beside += of_width(shared.memory, width) - kept;
  }
  void end_stage() {
    for (Device& device : devices_) {
      device.most_beside = std::max(device.most_beside, device.beside);
      device.beside = {};
    }
  }

  /// The devices in the order in which a module takes them.
  [[nodiscard]] std::vector<std::size_t> order_for(std::int32_t module) const {
    std::vector<std::size_t> order(devices_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const bool holds_a = devices_[a].kept[module].count > 0;
      const bool holds_b = devices_[b].kept[module].count > 0;
      return holds_a != holds_b ? holds_a : devices_[a].sum() < devices_[b].sum();
    });
    return order;
  }

  [[nodiscard]] Bytes most() const {
    Bytes most;
    for (const Device& device : devices_) most = std::max(most, device.sum() + device.most_beside);
    return most;
  }

 private:
  struct Device {
    std::vector<Bytes> kept = {};  // [modules]
    Bytes beside = {};             // of the stage at hand
    Bytes most_beside = {};

    [[nodiscard]] Bytes sum() const { return std::accumulate(kept.begin(), kept.end(), Bytes{}); }
  };

  const SharingProblem& problem_;
  std::vector<Device> devices_;
};

}  // namespace

std::int64_t least_devices(const SharingProblem& problem, std::int64_t module) {
  const std::vector<Bytes>& memory = problem.modules[module].memory;
  if (!problem.memory || memory.empty()) return 1;
  for (std::size_t width = 0; width < memory.size(); ++width)
    if (memory[width] <= *problem.memory) return std::int64_t{1} << width;
  return problem.devices + 1;
}

std::size_t count_side_by_side(const SharingProblem& problem,
                               std::span<const std::int32_t> modules) {
  std::int64_t free = problem.devices;
  std::size_t count = 0;
  while (count < modules.size() && (free -= least_devices(problem, modules[count])) >= 0) ++count;
  return count;
}

std::string explain_memory(const SharingProblem& problem, bool on_all_devices) {
  if (!problem.memory) return {};
  for (const SharedModule& module : problem.modules) {
    if (module.memory.empty()) continue;
    const Bytes least = on_all_devices
                            ? module.memory.back()
                            : *std::min_element(module.memory.begin(), module.memory.end());
    if (least <= *problem.memory) continue;
    return str("memory: ", module.name, " needs ", least, " of a device, ", least - *problem.memory,
               " above the limit of ", *problem.memory);
  }
  return {};
}

Bytes fullest_device(const SharingProblem& problem, std::span<const SharedStage> stages) {
  DeviceMemory memory(problem);
  for (const SharedStage& stage : stages) {
    for (const PlacedModule& place : stage.placed) {
      for (std::int64_t i = 0; i < place.devices; ++i)
        memory.put(static_cast<std::size_t>(place.first_device + i), place.module, place.devices);
    }
    memory.end_stage();
  }
  return memory.most();
}

Bytes fullest_device(const SharingProblem& problem, std::span<const BaselineWave> waves) {
  DeviceMemory memory(problem);
  for (const BaselineWave& wave : waves) {
    std::vector<bool> is_taken(static_cast<std::size_t>(problem.devices));
    for (const auto& [module, devices] : wave.devices) {
      std::int64_t left = devices;
      for (const std::size_t device : memory.order_for(module)) {
        if (left == 0) break;
        if (is_taken[device]) continue;
        is_taken[device] = true;
        memory.put(device, module, devices);
        --left;
      }
    }
    memory.end_stage();
  }
  return memory.most();
}

Certificate hold_to_memory(const SharingProblem& problem, Certificate found, Bytes fullest) {
  if (found.status == Status::kInfeasible || !problem.memory || fullest <= *problem.memory)
    return found;
  found.status = Status::kInfeasible;
  found.value = {};
  found.limit =
      str("memory: the modules of all stages take ", fullest, " of a device in the fastest plan, ",
          fullest - *problem.memory, " above the limit of ", *problem.memory);
  return found;
}

SharingAnswer hold_to_memory(const SharingProblem& problem, SharingAnswer answer) {
  answer.certificate =
      hold_to_memory(problem, answer.certificate, fullest_device(problem, answer.waves));
  if (answer.certificate.status == Status::kInfeasible) answer.waves.clear();
  return answer;
}

}  // namespace tributary::plan
