#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "studies/methods/sharing/sharing_baselines.h"
#include "studies/methods/sharing/sharing_memory.h"

namespace tributary::studies {
namespace {

/// The rest of a module of a level, as a fraction of its work.
struct Remainder {
  std::int32_t module;
  double share;
};

/// Where a module is cut when a wave ends within one of its layers.
enum class Cut { kBefore, kNearest };

/// When a wave ends: with the first module, or with the layers that a module runs on the devices
/// below or above those of the continuous division, so that both together take as long as it does.
enum class Rounding { kWhole, kBiPoint };

/// Concave hull of a module's rate over the number of devices: no mix of waves on whole devices is
/// faster on average.
class RateHull {
 public:
  RateHull(const plan::SharingProblem& problem, std::int32_t module) {
    for (std::int64_t devices = 1; devices <= problem.devices; ++devices) {
      const auto count = static_cast<double>(devices);
      const Point next = {count,
                          1 / static_cast<double>(time_on_devices(problem, module, count).count)};
      if (next.rate <= points_.back().rate) continue;
      while (points_.size() > 1 &&
             slope(points_.back(), next) >= slope(points_[points_.size() - 2], points_.back()))
        points_.pop_back();
      points_.push_back(next);
    }
  }

  /// Min devices for such a rate; infinite where none reach it.
  [[nodiscard]] double devices_for(double rate) const {
    const auto end = std::ranges::lower_bound(points_, rate, {}, &Point::rate);
    if (end == points_.end()) return std::numeric_limits<double>::infinity();
    if (end == points_.begin()) return 0;
    return end->devices - (end->rate - rate) / slope(*(end - 1), *end);
  }

 private:
  struct Point {
    double devices = 0;
    double rate = 0;  // modules for each nanosecond
  };
  [[nodiscard]] static double slope(const Point& from, const Point& to) {
    return (to.rate - from.rate) / (to.devices - from.devices);
  }

  std::vector<Point> points_ = {{}};  // both ascending
};

/// Lower bound [ns] on the waves of a level: all modules end together on average devices.
double min_time(const plan::SharingProblem& problem, std::span<const std::int32_t> modules) {
  std::vector<RateHull> hulls;
  double high = 0;
  for (const std::int32_t module : modules) {
    hulls.emplace_back(problem, module);
    high += static_cast<double>(
        time_on_devices(problem, module, static_cast<double>(problem.devices)).count);
  }
  double low = 0;
  for (int round = 0; round < 60; ++round) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const RateHull& hull : hulls) sum += hull.devices_for(1 / middle);
    (sum <= static_cast<double>(problem.devices) ? high : low) = middle;
  }
  return high;
}

/// The work of a level as waves complete it.
class Level {
 public:
  Level(const plan::SharingProblem& problem, std::span<const std::int32_t> modules, Cut cut,
        Rounding rounding)
      : problem_(problem),
        cut_(cut),
        rounding_(rounding),
        // Each module changes its devices once; what rounding leaves over runs whole.
        rounded_waves_(rounding == Rounding::kBiPoint ? 2 * std::ssize(modules) : 0) {
    for (const std::int32_t module : modules) left_.push_back({module, 1.0});
  }

  /// The time in which all remaining work ends together on fractions of devices.
  [[nodiscard]] double continuous_time() const {
    double low = 0;
    double high = 0;
    for (const Remainder& rest : left_) high += rest.share * time(rest.module, 1);
    for (int round = 0; round < 60; ++round) {
      const double middle = (low + high) / 2;
      double sum = 0;
      for (const Remainder& rest : left_) sum += devices_within(rest, middle);
      (sum <= static_cast<double>(problem_.devices) ? high : low) = middle;
    }
    return high;
  }

  /// Runs until the first module, or its part on these devices, ends.
  BaselineWave run_wave() {
    const double limit = continuous_time();
    const std::vector<std::pair<std::int32_t, std::int64_t>> given = allocate(limit);
    BaselineWave wave;
    double span = -1;
    const bool is_rounded = --rounded_waves_ >= 0;
    for (const auto& [module, devices] : given) {
      const Remainder& rest = find(module);
      const double share = is_rounded ? share_on(rest, devices, limit) : rest.share;
      const double end = share * time(module, static_cast<double>(devices));
      if (span < 0 || end < span) span = end;
    }
    double longest = span;
    for (const auto& [module, devices] : given) {
      Remainder& rest = find(module);
      const double whole = time(module, static_cast<double>(devices));
      const double done = whole_layers(rest, span / whole);
      rest.share -= done;
      longest = std::max(longest, done * whole);
      wave.modules.push_back(on_whole_devices(problem_, module, devices, done));
    }
    std::erase_if(left_, [](const Remainder& rest) { return rest.share <= 1e-9; });
    wave.time = {std::llround(longest)};
    return wave;
  }
  [[nodiscard]] bool is_done() const { return left_.empty(); }

 private:
  /// Between two numbers of devices some layers run on each, so rates are linear; for a module that
  /// does not change its devices times are linear.
  [[nodiscard]] double time(std::int32_t module, double devices) const {
    const auto known = [&](double count) {
      return static_cast<double>(time_on_devices(problem_, module, count).count);
    };
    const double below = std::floor(devices);
    if (rounding_ == Rounding::kWhole || below < 1 || below == devices) return known(devices);
    const double part = devices - below;
    return 1 / ((1 - part) / known(below) + part / known(below + 1));
  }
  [[nodiscard]] Remainder& find(std::int32_t module) {
    return *std::find_if(left_.begin(), left_.end(),
                         [&](const Remainder& rest) { return rest.module == module; });
  }

  /// The fraction of a module that ends between two layers: before the wanted one, or nearest to
  /// it.
  [[nodiscard]] double whole_layers(const Remainder& rest, double share) const {
    const auto layers = static_cast<double>(problem_.modules[rest.module].layers);
    if (layers == 0) return share;
    const double cut = share * layers + 1e-9;
    return std::min((cut_ == Cut::kBefore ? std::floor(cut) : std::round(cut)) / layers,
                    rest.share);
  }

  /// The fraction that a module runs on `devices`, if these are the whole numbers next to those
  /// with which it ends at the limit; all that is left on others, or where that is less than a
  /// layer.
  [[nodiscard]] double share_on(const Remainder& rest, std::int64_t devices, double limit) const {
    const auto below = static_cast<std::int64_t>(std::floor(devices_within(rest, limit)));
    if (below < 1 || below >= problem_.devices || (devices != below && devices != below + 1))
      return rest.share;
    const double slow = time(rest.module, static_cast<double>(below));
    const double fast = time(rest.module, static_cast<double>(below + 1));
    if (slow <= fast) return rest.share;
    const double above = std::clamp((rest.share * slow - limit) / (slow - fast), 0.0, rest.share);
    const auto layers = static_cast<double>(problem_.modules[rest.module].layers);
    const double part = devices == below ? rest.share - above : above;
    const double whole = layers > 0 ? std::round(part * layers) / layers : part;
    constexpr double kMin = 1.0 / 64;  // fraction of a module without layers
    return whole < kMin ? rest.share : std::min(whole, rest.share);
  }

  /// Devices with which a module ends within a time, by bisection on its curve.
  [[nodiscard]] double devices_within(const Remainder& rest, double limit) const {
    const auto all = static_cast<double>(problem_.devices);
    if (rest.share * time(rest.module, all) > limit) return 2 * all;
    double low = 1e-3;
    double high = all;
    for (int round = 0; round < 40; ++round) {
      const double middle = (low + high) / 2;
      (rest.share * time(rest.module, middle) <= limit ? high : low) = middle;
    }
    return high;
  }

  /// Modules and their devices: the continuous division, rounded, each at least on the devices that
  /// it fits on; the devices left over go to the slowest.
  [[nodiscard]] std::vector<std::pair<std::int32_t, std::int64_t>> allocate(double limit) const {
    std::vector<Remainder> order = left_;
    std::stable_sort(order.begin(), order.end(), [this](const Remainder& a, const Remainder& b) {
      return a.share * time(a.module, 1) > b.share * time(b.module, 1);
    });
    std::vector<std::int32_t> modules;
    for (const Remainder& rest : order) modules.push_back(rest.module);
    order.resize(count_side_by_side(problem_, modules));
    std::vector<std::pair<std::int32_t, std::int64_t>> devices;
    std::int64_t used = 0;
    for (const Remainder& rest : order) {
      const double exact =
          std::min(devices_within(rest, limit), static_cast<double>(problem_.devices));
      devices.emplace_back(rest.module, std::max(min_devices(problem_, rest.module),
                                                 static_cast<std::int64_t>(std::floor(exact))));
      used += devices.back().second;
    }
    const auto slowest = [&](bool may_shrink) {
      std::size_t best = devices.size();
      double max = -1;
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto [module, mine] = devices[i];
        if (may_shrink && mine == min_devices(problem_, module)) continue;
        const double end = order[i].share * time(module, static_cast<double>(mine));
        const double key = may_shrink ? 1 / end : end;
        if (key > max) {
          max = key;
          best = i;
        }
      }
      return best;
    };
    for (; used > problem_.devices; --used) --devices[slowest(true)].second;
    for (; used < problem_.devices; ++used) ++devices[slowest(false)].second;
    return devices;
  }

  const plan::SharingProblem& problem_;
  Cut cut_;
  Rounding rounding_;
  std::ptrdiff_t rounded_waves_;  // number that may end before a module does
  std::vector<Remainder> left_;
};

/// The waves of a level and their total time.
struct Waves {
  Nanoseconds time = {};
  std::vector<BaselineWave> waves = {};

  void keep_shorter(Waves other) {
    if (waves.empty() || other.time < time) *this = std::move(other);
  }
};

Waves cut_level(const plan::SharingProblem& problem, std::span<const std::int32_t> modules, Cut cut,
                Rounding rounding) {
  Waves found;
  Level level(problem, modules, cut, rounding);
  while (!level.is_done()) {
    found.waves.push_back(level.run_wave());
    found.time += found.waves.back().time;
  }
  return found;
}

}  // namespace

SharingAnswer solve_spindle(const plan::SharingProblem& problem) {
  check_problem(problem);
  SharingAnswer answer;
  answer.certificate.limit = explain_memory(problem, false);
  if (!answer.certificate.limit.empty()) return answer;
  double bound = 0;
  for (const std::vector<std::int32_t>& modules : levels_of(problem)) {
    bound += min_time(problem, modules);
    Waves best;
    for (const Rounding rounding : {Rounding::kWhole, Rounding::kBiPoint}) {
      for (const Cut cut : {Cut::kBefore, Cut::kNearest})
        best.keep_shorter(cut_level(problem, modules, cut, rounding));
    }
    if (count_side_by_side(problem, modules) == modules.size()) {  // nothing is cut
      BaselineWave whole = place_side_by_side(problem, modules, answer.certificate.evaluations);
      best.keep_shorter({whole.time, {whole}});
    }
    answer.certificate.value += best.time;
    answer.certificate.evaluations += std::ssize(best.waves);
    std::move(best.waves.begin(), best.waves.end(), std::back_inserter(answer.waves));
  }
  // Waves end at whole nanoseconds.
  answer.certificate.lower_bound =
      std::min(answer.certificate.value, Nanoseconds{static_cast<std::int64_t>(std::floor(bound))});
  answer.certificate.status = plan::Status::kFeasible;
  return hold_to_memory(problem, std::move(answer));
}

}  // namespace tributary::studies
