#include "studies/methods/sharing/sharing_memory.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/text.h"

namespace tributary::studies {
namespace {

Bytes of_width(const std::vector<Bytes>& table, std::int64_t devices) {
  if (table.empty()) return {};
  return table[std::bit_width(static_cast<std::uint64_t>(devices)) - 1];
}

/// What each device holds while stages run one after another.
class DeviceMemory {
 public:
  explicit DeviceMemory(const plan::SharingProblem& problem)
      : problem_(problem), devices_(static_cast<std::size_t>(problem.devices)) {
    for (Device& device : devices_) device.kept.resize(problem.modules.size());
  }

  /// Puts a module on `width` devices, of which this is one.
  void put(std::int64_t device, std::int32_t module, std::int64_t width) {
    Device& on = devices_[device];
    const plan::SharedModule& shared = problem_.modules[module];
    const Bytes kept = of_width(shared.resident, width);
    on.kept[module] = std::max(on.kept[module], kept);
    on.beside += of_width(shared.memory, width) - kept;
  }
  void end_stage() {
    for (Device& device : devices_) {
      device.max_beside = std::max(device.max_beside, device.beside);
      device.beside = {};
    }
  }

  /// Chooses the free devices for a module: first those that already hold it, then the emptiest.
  [[nodiscard]] std::vector<std::int64_t> free_for(const WaveModule& wanted,
                                                   const std::vector<bool>& is_taken) const {
    std::vector<std::int64_t> order;
    for (std::int64_t device = 0; device < problem_.devices; ++device)
      if (!is_taken[device]) order.push_back(device);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const bool holds_a = devices_[a].kept[wanted.module].count > 0;
      const bool holds_b = devices_[b].kept[wanted.module].count > 0;
      return holds_a != holds_b ? holds_a : devices_[a].sum() < devices_[b].sum();
    });
    if (std::ssize(order) > wanted.devices) order.resize(static_cast<std::size_t>(wanted.devices));
    return order;
  }

  [[nodiscard]] Bytes max() const {
    Bytes max;
    for (const Device& device : devices_) max = std::max(max, device.sum() + device.max_beside);
    return max;
  }

 private:
  struct Device {
    std::vector<Bytes> kept = {};  // [modules]
    Bytes beside = {};             // of the present stage
    Bytes max_beside = {};

    [[nodiscard]] Bytes sum() const { return std::accumulate(kept.begin(), kept.end(), Bytes{}); }
  };

  const plan::SharingProblem& problem_;
  std::vector<Device> devices_;
};

}  // namespace

std::int64_t min_devices(const plan::SharingProblem& problem, std::int64_t module) {
  const std::vector<Bytes>& memory = problem.modules[module].memory;
  if (!problem.memory || memory.empty()) return 1;
  for (std::size_t width = 0; width < memory.size(); ++width)
    if (memory[width] <= *problem.memory) return std::int64_t{1} << width;
  return problem.devices + 1;
}

std::size_t count_side_by_side(const plan::SharingProblem& problem,
                               std::span<const std::int32_t> modules) {
  std::int64_t free = problem.devices;
  std::size_t count = 0;
  while (count < modules.size() && (free -= min_devices(problem, modules[count])) >= 0) ++count;
  return count;
}

std::string explain_memory(const plan::SharingProblem& problem, bool on_all_devices) {
  if (!problem.memory) return {};
  for (const plan::SharedModule& module : problem.modules) {
    if (module.memory.empty()) continue;
    const Bytes min = on_all_devices
                          ? module.memory.back()
                          : *std::min_element(module.memory.begin(), module.memory.end());
    if (min <= *problem.memory) continue;
    return str("memory: ", module.name, " needs ", min, " of a device, ", min - *problem.memory,
               " above the limit of ", *problem.memory);
  }
  return {};
}

Bytes place_waves(const plan::SharingProblem& problem, std::span<BaselineWave> waves) {
  DeviceMemory memory(problem);
  for (BaselineWave& wave : waves) {
    std::vector<bool> is_taken(static_cast<std::size_t>(problem.devices));
    for (WaveModule& each : wave.modules) {
      if (each.on.empty()) each.on = memory.free_for(each, is_taken);
      for (const std::int64_t device : each.on) {
        is_taken[device] = true;
        memory.put(device, each.module, each.devices);
      }
    }
    memory.end_stage();
  }
  return memory.max();
}

SharingAnswer hold_to_memory(const plan::SharingProblem& problem, SharingAnswer answer) {
  const Bytes fullest = place_waves(problem, answer.waves);
  plan::Certificate& found = answer.certificate;
  if (found.status != plan::Status::kInfeasible && problem.memory && fullest > *problem.memory) {
    found.status = plan::Status::kInfeasible;
    found.value = {};
    found.limit = str("memory: the modules of all stages take ", fullest,
                      " of a device in the fastest plan, ", fullest - *problem.memory,
                      " above the limit of ", *problem.memory);
  }
  if (found.status == plan::Status::kInfeasible) answer.waves.clear();
  return answer;
}

}  // namespace tributary::studies
