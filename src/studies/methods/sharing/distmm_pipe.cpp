// DistMM-Pipe: levels of modules in one pipeline of microbatches, all forwards before all
// backwards.

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "studies/methods/sharing/sharing_baselines.h"
#include "studies/methods/sharing/sharing_memory.h"

namespace tributary::studies {
namespace {

/// The modules of consecutive levels, side by side on devices of their own.
class PipedLevels {
 public:
  PipedLevels(const plan::SharingProblem& problem, std::vector<std::int32_t> modules)
      : problem_(problem), modules_(std::move(modules)) {
    std::sort(modules_.begin(), modules_.end());
    for (const std::int32_t module : modules_) {
      std::vector<std::size_t>& before = before_.emplace_back();
      for (const std::int32_t other : problem.modules[module].after) {
        const auto found = std::lower_bound(modules_.begin(), modules_.end(), other);
        if (found != modules_.end() && *found == other)
          before.push_back(static_cast<std::size_t>(found - modules_.begin()));
      }
    }
  }

  /// The shortest division of the devices found; null where the modules do not fit side by side.
  [[nodiscard]] std::optional<BaselineWave> divide(std::int64_t& evaluations) const {
    constexpr std::ptrdiff_t kCaps = 8;  // tried on the slowest module, ascending
    if (count_side_by_side(problem_, modules_) < modules_.size()) return std::nullopt;
    const std::vector<Nanoseconds> caps = caps_on_slowest();
    const auto min = std::partition_point(caps.begin(), caps.end(), [&](Nanoseconds cap) {
      return sum(devices_within(cap)) > problem_.devices;
    });
    std::optional<BaselineWave> best;
    const auto end = min + std::min(kCaps, caps.end() - min);
    for (auto cap = min; cap != end; ++cap) {
      std::vector<std::int64_t> devices = devices_within(*cap);
      const Nanoseconds time = hand_out_rest(devices, evaluations);
      if (best && time >= best->time) continue;
      best = {.time = time};
      for (std::size_t at = 0; at < modules_.size(); ++at)
        best->modules.push_back(on_whole_devices(problem_, modules_[at], devices[at]));
    }
    return best;
  }

 private:
  [[nodiscard]] Nanoseconds time(std::size_t at, std::int64_t devices) const {
    return time_on_devices(problem_, modules_[at], static_cast<double>(devices));
  }
  [[nodiscard]] static std::int64_t sum(const std::vector<std::int64_t>& devices) {
    std::int64_t sum = 0;
    for (const std::int64_t mine : devices) sum += mine;
    return sum;
  }

  [[nodiscard]] std::vector<Nanoseconds> caps_on_slowest() const {
    std::vector<Nanoseconds> caps;
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      for (std::int64_t devices = min_devices(problem_, modules_[at]); devices <= problem_.devices;
           ++devices)
        caps.push_back(time(at, devices));
    }
    std::sort(caps.begin(), caps.end());
    caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
    return caps;
  }

  /// Min devices of each module within a cap; more than exist where none are enough.
  [[nodiscard]] std::vector<std::int64_t> devices_within(Nanoseconds cap) const {
    std::vector<std::int64_t> found;
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      std::int64_t devices = min_devices(problem_, modules_[at]);
      while (devices <= problem_.devices && time(at, devices) > cap) ++devices;
      found.push_back(devices);
    }
    return found;
  }

  /// Gives the remaining devices, one by one, to the module that they help most.
  [[nodiscard]] Nanoseconds hand_out_rest(std::vector<std::int64_t>& devices,
                                          std::int64_t& evaluations) const {
    Nanoseconds best = makespan(devices);
    for (std::int64_t left = problem_.devices - sum(devices); left > 0; --left) {
      std::size_t max = devices.size();
      for (std::size_t at = 0; at < devices.size(); ++at) {
        ++devices[at];
        ++evaluations;
        if (const Nanoseconds time = makespan(devices); time < best) {
          best = time;
          max = at;
        }
        --devices[at];
      }
      if (max == devices.size()) break;
      ++devices[max];
    }
    return best;
  }

  /// Every module runs its microbatches one after another, each once it has gone through all
  /// modules before; forwards and backwards of all modules have the same proportion.
  [[nodiscard]] Nanoseconds makespan(const std::vector<std::int64_t>& devices) const {
    std::vector<std::int64_t> times;  // of a microbatch, in fractions of a nanosecond
    for (std::size_t at = 0; at < devices.size(); ++at)
      times.push_back(time(at, devices[at]).count);
    std::vector<std::int64_t> ends(devices.size());
    for (std::int64_t microbatch = 0; microbatch < kPipedMicrobatches; ++microbatch) {
      for (std::size_t at = 0; at < devices.size(); ++at) {
        std::int64_t start = ends[at];
        for (const std::size_t before : before_[at]) start = std::max(start, ends[before]);
        ends[at] = start + times[at];
      }
    }
    const std::int64_t last = *std::max_element(ends.begin(), ends.end());
    return {(last + kPipedMicrobatches - 1) / kPipedMicrobatches};
  }

  const plan::SharingProblem& problem_;
  std::vector<std::int32_t> modules_;             // each after those it depends on
  std::vector<std::vector<std::size_t>> before_;  // indices of those, in the same pipeline
};

/// The best way to run the first levels.
struct Prefix {
  Nanoseconds time = {};
  std::vector<BaselineWave> waves = {};
};

}  // namespace

SharingAnswer solve_distmm_pipe(const plan::SharingProblem& problem) {
  check_problem(problem);
  SharingAnswer answer;
  answer.certificate.limit = explain_memory(problem, false);
  if (!answer.certificate.limit.empty()) return answer;
  const std::vector<std::vector<std::int32_t>> levels = levels_of(problem);
  std::vector<Prefix> prefixes(1);  // [levels + 1]
  for (std::size_t end = 1; end <= levels.size(); ++end) {
    Prefix best = prefixes[end - 1];
    for (BaselineWave& wave :
         place_level(problem, levels[end - 1], answer.certificate.evaluations)) {
      best.time += wave.time;
      best.waves.push_back(std::move(wave));
    }
    std::vector<std::int32_t> modules = levels[end - 1];
    for (std::size_t first = end - 1; first-- > 0;) {
      modules.insert(modules.end(), levels[first].begin(), levels[first].end());
      const std::optional<BaselineWave> piped =
          PipedLevels(problem, modules).divide(answer.certificate.evaluations);
      if (!piped) break;  // more modules do not fit either
      if (prefixes[first].time + piped->time >= best.time) continue;
      best = prefixes[first];
      best.time += piped->time;
      best.waves.push_back(*piped);
    }
    prefixes.push_back(std::move(best));
  }
  answer.certificate.value = prefixes.back().time;
  answer.waves = std::move(prefixes.back().waves);
  // No module is faster than on all devices.
  for (std::size_t module = 0; module < problem.modules.size(); ++module)
    answer.certificate.lower_bound = std::max(
        answer.certificate.lower_bound, time_on_devices(problem, static_cast<std::int64_t>(module),
                                                        static_cast<double>(problem.devices)));
  answer.certificate.status = answer.certificate.value == answer.certificate.lower_bound
                                  ? plan::Status::kOptimal
                                  : plan::Status::kFeasible;
  answer = hold_to_memory(problem, std::move(answer));
  // The modules of all levels together may need too much memory when they run side by side.
  return answer.certificate.status == plan::Status::kInfeasible ? solve_distmm(problem) : answer;
}

}  // namespace tributary::studies
