#include "studies/methods/sharing/occupancy.h"

#include <algorithm>
#include <numeric>

namespace tributary::studies {

std::optional<Occupancy> occupancy_of(const plan::SharingProblem& problem,
                                      const SharingAnswer& answer) {
  const bool is_known = std::ranges::all_of(problem.modules, [](const plan::SharedModule& module) {
    return !module.busy.empty() && !module.whole_busy.empty();
  });
  if (!is_known || answer.waves.empty()) return std::nullopt;
  std::vector<double> busy(static_cast<std::size_t>(problem.devices));  // ns, over all units
  for (const BaselineWave& wave : answer.waves) {
    for (const WaveModule& each : wave.modules) {
      const double share = static_cast<double>(each.units) / static_cast<double>(problem.units);
      for (const std::int64_t device : each.on)
        busy[device] += share * each.busy * static_cast<double>(each.time.count);
    }
  }
  const auto step = static_cast<double>(answer.certificate.value.count);
  return Occupancy{
      .mean = std::accumulate(busy.begin(), busy.end(), 0.0) / (step * double(problem.devices)),
      .least = *std::ranges::min_element(busy) / step};
}

}  // namespace tributary::studies
