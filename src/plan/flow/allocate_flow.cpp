#include "plan/flow/allocate_flow.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <tuple>

#include "core/error.h"

namespace tributary::plan {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxDevices = 1 << 20;

void check_module(const FlowModule& module) {
  TRIB_REQUIRE(!module.candidates.empty(), .what = "plan: module without a candidate",
               .where = module.name);
  for (std::size_t index = 0; index < module.candidates.size(); ++index) {
    const FlowCandidate& candidate = module.candidates[index];
    TRIB_REQUIRE(candidate.devices >= 1 && candidate.devices <= kMaxDevices &&
                     candidate.period.count >= 1 && candidate.period.count < kNever,
                 .what = "plan: candidate cannot be used",
                 .where = str(module.name, " candidate ", index),
                 .found = str(candidate.devices, " devices, ", candidate.period),
                 .expected = str("1 to ", kMaxDevices, " devices, a period above 0"));
  }
}

/// The candidates of a module by period: "the cheapest that is fast enough" is one look-up.
class Choices {
 public:
  explicit Choices(const FlowModule& module) : candidates_(module.candidates) {
    for (std::size_t index = 0; index < candidates_.size(); ++index) {
      by_period_.push_back(static_cast<std::int32_t>(index));
    }
    std::sort(by_period_.begin(), by_period_.end(), [this](std::int32_t a, std::int32_t b) {
      return std::tuple(candidates_[a].period, candidates_[a].devices, a) <
             std::tuple(candidates_[b].period, candidates_[b].devices, b);
    });
    for (const std::int32_t index : by_period_) {
      periods_.push_back(candidates_[index].period.count);
      const bool is_better = cheapest_.empty() || is_cheaper(index, cheapest_.back());
      cheapest_.push_back(is_better ? index : cheapest_.back());
    }
  }

  /// The cheapest with at most this period, the lowest index of equals; -1 when there is none.
  [[nodiscard]] std::int32_t cheapest_within(std::int64_t period) const {
    const auto end = std::upper_bound(periods_.begin(), periods_.end(), period);
    return end == periods_.begin() ? -1 : cheapest_[end - periods_.begin() - 1];
  }
  /// The cheapest with exactly this period; -1 when there is none.
  [[nodiscard]] std::int32_t cheapest_at(std::int64_t period) const {
    const auto begin = std::lower_bound(periods_.begin(), periods_.end(), period);
    if (begin == periods_.end() || *begin != period) return -1;
    return by_period_[begin - periods_.begin()];
  }
  [[nodiscard]] std::int64_t devices(std::int32_t index) const {
    return index < 0 ? kNever : candidates_[index].devices;
  }
  [[nodiscard]] std::int64_t period(std::int32_t index) const {
    return candidates_[index].period.count;
  }
  [[nodiscard]] const std::vector<std::int64_t>& periods() const { return periods_; }

 private:
  [[nodiscard]] bool is_cheaper(std::int32_t a, std::int32_t b) const {
    return std::tuple(candidates_[a].devices, a) < std::tuple(candidates_[b].devices, b);
  }

  const std::vector<FlowCandidate>& candidates_;
  std::vector<std::int32_t> by_period_;
  std::vector<std::int64_t> periods_;   // ascending
  std::vector<std::int32_t> cheapest_;  // [periods] index of the cheapest up to each
};

struct Selection {
  std::int64_t devices = kNever;
  std::vector<std::int32_t> chosen = {};
};

class Allocator {
 public:
  explicit Allocator(const FlowProblem& problem) : problem_(problem) {
    for (const FlowModule& encoder : problem.encoders) modules_.emplace_back(encoder);
    modules_.emplace_back(problem.backbone);
  }

  FlowAllocation run(FlowOrder order) {
    const std::optional<std::int64_t> pace = find_pace();
    if (!pace) return explain();
    return finish(*pace, order == FlowOrder::kExact ? cheapest(*pace) : max_even(*pace));
  }

 private:
  [[nodiscard]] std::size_t encoders() const { return modules_.size() - 1; }
  [[nodiscard]] const Choices& backbone() const { return modules_.back(); }

  /// The devices for all modules at this period or faster; the cheapest candidates are selected.
  [[nodiscard]] std::int64_t devices_within(std::int64_t period) {
    ++evaluations_;
    std::int64_t sum = 0;
    for (const Choices& module : modules_) {
      const std::int64_t devices = module.devices(module.cheapest_within(period));
      if (devices > problem_.devices - sum) return kNever;
      sum += devices;
    }
    return sum;
  }

  std::optional<std::int64_t> find_pace() {
    std::vector<std::int64_t> periods;
    for (const Choices& module : modules_) {
      periods.insert(periods.end(), module.periods().begin(), module.periods().end());
    }
    std::sort(periods.begin(), periods.end());
    periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
    const auto pace = std::partition_point(
        periods.begin(), periods.end(),
        [this](std::int64_t period) { return devices_within(period) == kNever; });
    return pace == periods.end() ? std::nullopt : std::optional(*pace);
  }

  [[nodiscard]] Selection cheapest(std::int64_t pace) const {
    Selection found = {.devices = 0};
    std::int64_t production = 0;  // the fastest that the fewest devices allow
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      const Choices& choices = modules_[module];
      const std::int64_t devices = choices.devices(choices.cheapest_within(pace));
      found.devices += devices;
      if (module < encoders()) production = std::max(production, fastest_of(module, devices));
    }
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      const Choices& choices = modules_[module];
      found.chosen.push_back(choices.cheapest_within(module < encoders() ? production : pace));
    }
    return found;
  }
  [[nodiscard]] std::int64_t fastest_of(std::size_t module, std::int64_t devices) const {
    const std::vector<FlowCandidate>& candidates = problem_.encoders[module].candidates;
    std::int64_t fastest = kNever;
    for (const FlowCandidate& candidate : candidates) {
      if (candidate.devices == devices) fastest = std::min(fastest, candidate.period.count);
    }
    return fastest;
  }

  /// One side keeps the pace; the other gets the period closest to it.
  [[nodiscard]] Selection max_even(std::int64_t pace) {
    const std::int32_t at_pace = backbone().cheapest_at(pace);
    Selection best;
    std::int64_t best_period = 0;
    if (at_pace >= 0) {
      for (const std::int64_t period : encoder_periods(pace)) {
        Selection found = encoders_at(period);
        if (found.devices > problem_.devices - backbone().devices(at_pace)) continue;
        found.devices += backbone().devices(at_pace);
        found.chosen.push_back(at_pace);
        best = found;
        best_period = period;
        break;
      }
    }
    const Selection slow = encoders_at(pace);
    if (slow.devices == kNever) return best;
    const std::vector<std::int64_t>& periods = backbone().periods();
    for (auto it = std::upper_bound(periods.begin(), periods.end(), pace);
         it != periods.begin() && *--it >= best_period;) {
      const std::int32_t index = backbone().cheapest_at(*it);
      if (backbone().devices(index) > problem_.devices - slow.devices) continue;
      Selection found = {slow.devices + backbone().devices(index), slow.chosen};
      found.chosen.push_back(index);
      if (*it > best_period ||
          std::tie(found.devices, found.chosen) < std::tie(best.devices, best.chosen)) {
        best = found;
      }
      break;
    }
    return best;
  }

  /// Periods of encoders up to the pace, the slowest first; only 0 when there are no encoders.
  [[nodiscard]] std::vector<std::int64_t> encoder_periods(std::int64_t pace) const {
    if (encoders() == 0) return {0};
    std::vector<std::int64_t> periods;
    for (std::size_t module = 0; module < encoders(); ++module) {
      for (const std::int64_t period : modules_[module].periods()) {
        if (period <= pace) periods.push_back(period);
      }
    }
    std::sort(periods.begin(), periods.end(), std::greater<>());
    periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
    return periods;
  }

  /// The cheapest encoders whose slowest one has exactly this period.
  [[nodiscard]] Selection encoders_at(std::int64_t period) {
    ++evaluations_;
    if (encoders() == 0) return {.devices = period == 0 ? 0 : kNever};
    Selection best;
    for (std::size_t slowest = 0; slowest < encoders(); ++slowest) {
      Selection found = {.devices = 0};
      for (std::size_t module = 0; module < encoders() && found.devices != kNever; ++module) {
        const Choices& choices = modules_[module];
        const std::int32_t index =
            module == slowest ? choices.cheapest_at(period) : choices.cheapest_within(period);
        found.devices = index < 0 ? kNever : found.devices + choices.devices(index);
        found.chosen.push_back(index);
      }
      if (found.devices != kNever &&
          std::tie(found.devices, found.chosen) < std::tie(best.devices, best.chosen)) {
        best = found;
      }
    }
    return best;
  }

  [[nodiscard]] FlowAllocation finish(std::int64_t pace, const Selection& selection) const {
    FlowAllocation found;
    found.certificate = {.value = {pace},
                         .lower_bound = {pace},
                         .status = Status::kOptimal,
                         .evaluations = evaluations_};
    found.chosen = selection.chosen;
    found.devices = selection.devices;
    for (std::size_t module = 0; module < encoders(); ++module) {
      found.production = std::max(found.production,
                                  Nanoseconds{modules_[module].period(selection.chosen[module])});
    }
    found.consumption = {backbone().period(selection.chosen.back())};
    return found;
  }

  [[nodiscard]] FlowAllocation explain() const {
    std::int64_t min = 0;
    std::string parts;
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      const std::int64_t devices =
          modules_[module].devices(modules_[module].cheapest_within(kNever - 1));
      min += devices;
      parts += str(parts.empty() ? "" : ", ",
                   module < encoders() ? problem_.encoders[module].name : problem_.backbone.name,
                   " ", devices);
    }
    FlowAllocation found;
    found.certificate.evaluations = evaluations_;
    found.certificate.limit =
        str("devices: the smallest candidates need ", min, " (", parts, "), ",
            min - problem_.devices, " above the ", problem_.devices, " there are");
    return found;
  }

  const FlowProblem& problem_;
  std::vector<Choices> modules_;  // the backbone last
  std::int64_t evaluations_ = 0;
};

}  // namespace

FlowAllocation allocate_flow(const FlowProblem& problem, FlowOrder order) {
  for (const FlowModule& encoder : problem.encoders) check_module(encoder);
  check_module(problem.backbone);
  TRIB_REQUIRE(problem.devices >= 1 && problem.devices <= kMaxDevices,
               .what = "plan: value cannot be used", .where = "devices",
               .found = str(problem.devices), .expected = str("1 to ", kMaxDevices));
  return Allocator(problem).run(order);
}

}  // namespace tributary::plan
