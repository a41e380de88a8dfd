#include "studies/dflop/search_3d.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/text.h"
#include "studies/dflop/problem_3d.h"

namespace tributary::studies {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// One module on given degrees: its time in a step, and the microbatches that memory requires.
class Side {
 public:
  Side(const ModuleCosts& module, const Degrees& degrees, std::int64_t global_samples)
      : module_(module),
        degrees_(degrees),
        costs_(costs_at(module, degrees.tp)),
        samples_(static_cast<double>(global_samples) / static_cast<double>(degrees.dp)),
        work_(module.sample_flops * samples_ / static_cast<double>(degrees.tp * degrees.pp)) {}

  /// Seconds of a stage in a step.
  [[nodiscard]] double total(std::int64_t microbatches) const {
    return work_ / costs_.throughput.at(shape(microbatches));
  }
  /// Lower bound on total() for this and any larger number.
  [[nodiscard]] double min_total_from(std::int64_t microbatches) const {
    return work_ / costs_.throughput.most_up_to(shape(microbatches));
  }
  [[nodiscard]] double min_total() const { return work_ / costs_.throughput.peak(); }

  [[nodiscard]] double bytes(std::int64_t microbatches, std::int64_t depth) const {
    return device_bytes(module_, degrees_, double(depth), shape(microbatches));
  }
  /// The min number of microbatches that fits; max + 1 when none does.
  [[nodiscard]] std::int64_t min_microbatches(std::int64_t depth, double limit,
                                              std::int64_t max) const {
    std::int64_t low = 1;
    std::int64_t high = max + 1;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (bytes(middle, depth) <= limit) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

 private:
  [[nodiscard]] double shape(std::int64_t microbatches) const {
    return module_.sample_shape * samples_ / static_cast<double>(microbatches);
  }

  const ModuleCosts& module_;
  const Degrees& degrees_;
  const DegreeCosts& costs_;
  double samples_;
  double work_;
};

class Search {
 public:
  Search(const Problem3d& problem, const Search3dEffort& effort)
      : problem_(problem), effort_(effort) {}

  Search3dResult run() {
    double open = kInfinite;  // min bound of what was not visited
    for (const auto& [bound, devices] : splits()) {
      if (bound >= worst_kept()) break;
      if (!visit_split(devices)) {
        open = bound;
        break;
      }
    }
    return finish(open);
  }

 private:
  [[nodiscard]] std::vector<std::pair<double, std::int64_t>> splits() const {
    const auto min = [&](const ModuleCosts& module, std::int64_t devices) {
      double peak = 0;
      for (const DegreeCosts& costs : module.degrees) {
        peak = std::max(peak, costs.throughput.peak());
      }
      return module.sample_flops * static_cast<double>(problem_.global_samples) /
             (static_cast<double>(devices) * peak);
    };
    std::vector<std::pair<double, std::int64_t>> found;
    for (std::int64_t devices = 1; devices < problem_.devices; ++devices) {
      found.emplace_back(std::max(min(problem_.encoder, devices),
                                  min(problem_.backbone, problem_.devices - devices)),
                         devices);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  /// Returns false when the budget is used up.
  bool visit_split(std::int64_t devices) {
    const std::vector<Degrees> encoders =
        list_degrees(problem_.encoder, devices, problem_.global_samples);
    if (encoders.empty()) return true;
    for (const Degrees& backbone :
         list_degrees(problem_.backbone, problem_.devices - devices, problem_.global_samples)) {
      const Side side(problem_.backbone, backbone, problem_.global_samples);
      const std::int64_t max = problem_.global_samples / backbone.dp;
      if (side.min_total() >= worst_kept()) continue;
      const std::int64_t min = side.min_microbatches(backbone.pp, problem_.memory_bytes, max);
      if (min > max) continue;
      for (const Degrees& encoder : encoders) {
        if (!visit_pair(encoder, backbone, side, min, max)) return false;
      }
    }
    return true;
  }

  bool visit_pair(const Degrees& encoder, const Degrees& backbone, const Side& backbone_side,
                  std::int64_t min, std::int64_t max) {
    const Side side(problem_.encoder, encoder, problem_.global_samples);
    const double work = std::max(side.min_total(), backbone_side.min_total());
    const std::int64_t depth = encoder.pp + backbone.pp;
    const auto fill = static_cast<double>(depth - 1);
    const double limit = worst_kept();
    if (work * (1 + fill / static_cast<double>(max)) >= limit) return true;
    std::int64_t first = std::max(min, side.min_microbatches(depth, problem_.memory_bytes, max));
    if (first > max) return true;
    if (limit < kInfinite) {
      // Fewer microbatches have too long a bubble, whatever the throughput.
      first = std::max(first, static_cast<std::int64_t>(
                                  std::min(fill / (limit / work - 1), static_cast<double>(max))));
    }
    return visit_microbatches(encoder, backbone, side, backbone_side, first, max);
  }

  bool visit_microbatches(const Degrees& encoder, const Degrees& backbone, const Side& encoder_side,
                          const Side& backbone_side, std::int64_t first, std::int64_t max) {
    const auto fill = static_cast<double>(encoder.pp + backbone.pp - 1);
    const auto bubble = [&](std::int64_t count) { return 1 + fill / static_cast<double>(count); };
    Plan3d best = {encoder, backbone, 0, worst_kept()};
    std::vector<std::pair<std::int64_t, std::int64_t>> open = {{first, max}};
    while (!open.empty()) {
      const auto [low, high] = open.back();
      open.pop_back();
      if (low > high) continue;
      if (evaluations_ == effort_.evaluations) {
        if (best.microbatches > 0) keep(best);
        return false;
      }
      ++evaluations_;
      const double seconds =
          bubble(low) * std::max(encoder_side.total(low), backbone_side.total(low));
      if (seconds < best.seconds) {
        best.microbatches = low;
        best.seconds = seconds;
      }
      if (low == high) continue;
      const double bound = bubble(high) * std::max(encoder_side.min_total_from(low),
                                                   backbone_side.min_total_from(low));
      if (bound >= best.seconds) continue;
      const std::int64_t middle = (low + 1 + high) / 2;
      open.emplace_back(middle + 1, high);
      open.emplace_back(low + 1, middle);
    }
    if (best.microbatches > 0) keep(best);
    return true;
  }

  /// The value that a plan must be below to be kept.
  [[nodiscard]] double worst_kept() const {
    return std::ssize(kept_) < effort_.keep ? kInfinite : kept_.back().seconds;
  }
  void keep(const Plan3d& plan) {
    const auto place =
        std::upper_bound(kept_.begin(), kept_.end(), plan,
                         [](const Plan3d& a, const Plan3d& b) { return a.seconds < b.seconds; });
    kept_.insert(place, plan);
    if (std::ssize(kept_) > effort_.keep) kept_.pop_back();
  }

  Search3dResult finish(double open) {
    Search3dResult result = {.certificate = {}, .plans = std::move(kept_)};
    plan::Certificate& certificate = result.certificate;
    certificate.evaluations = evaluations_;
    const auto to_time = [](double seconds) {
      return Nanoseconds{static_cast<std::int64_t>(std::llround(1e9 * seconds))};
    };
    if (result.plans.empty()) {
      const bool was_cut = open < kInfinite;
      certificate.status = was_cut ? plan::Status::kTruncated : plan::Status::kInfeasible;
      if (was_cut) certificate.lower_bound = to_time(open);
      certificate.limit =
          was_cut ? "no plan within the budget of evaluations" : explain_infeasible(problem_);
      return result;
    }
    const double value = result.plans.front().seconds;
    certificate.value = to_time(value);
    certificate.lower_bound = to_time(std::min(value, open));
    certificate.status = open < kInfinite ? plan::Status::kTruncated : plan::Status::kOptimal;
    return result;
  }

  const Problem3d& problem_;
  const Search3dEffort& effort_;
  std::vector<Plan3d> kept_;  // the best first
  std::int64_t evaluations_ = 0;
};

}  // namespace

Search3dResult search_3d(const Problem3d& problem, const Search3dEffort& effort) {
  check_problem(problem);
  return Search(problem, effort).run();
}

std::optional<Plan3d> find_leanest(const Problem3d& problem) {
  std::optional<Plan3d> leanest;
  double min = kInfinite;  // over all pairs, for the module that needs more
  for (std::int64_t devices = 1; devices < problem.devices; ++devices) {
    const auto encoders = list_degrees(problem.encoder, devices, problem.global_samples);
    const auto backbones =
        list_degrees(problem.backbone, problem.devices - devices, problem.global_samples);
    for (const Degrees& backbone : backbones) {
      const std::int64_t max = problem.global_samples / backbone.dp;
      const Side side(problem.backbone, backbone, problem.global_samples);
      const double mine = side.bytes(max, backbone.pp);
      for (const Degrees& encoder : encoders) {
        const Side other(problem.encoder, encoder, problem.global_samples);
        const double bytes = std::max(mine, other.bytes(max, encoder.pp + backbone.pp));
        if (bytes >= min) continue;
        min = bytes;
        leanest = Plan3d{encoder, backbone, max, 0};
      }
    }
  }
  return leanest;
}

std::string explain_infeasible(const Problem3d& problem) {
  const std::optional<Plan3d> leanest = find_leanest(problem);
  if (!leanest) {
    return str("degrees: no split of ", problem.devices, " devices over ", problem.encoder.name,
               " and ", problem.backbone.name,
               " has a profiled tp, pp within the layers and dp within ", problem.global_samples,
               " samples");
  }
  const MemoryNeed need = need_of(problem, *leanest);
  return need.bytes <= problem.memory_bytes ? "" : explain_shortage(need, problem.memory_bytes);
}

}  // namespace tributary::studies
