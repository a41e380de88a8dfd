#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/chains/estimate_step.h"

namespace tributary::plan {

/// Degrees of all encoders that have ranks of their own.
struct EncoderSet {
  std::vector<std::optional<ChainChoice>> encoders;  // [encoders_of]
  StepEstimate estimate;                             // together with the backbone
  bool is_twin = false;                              // nearly the same as another set of the list
  bool is_alike = false;                             // has the backbone's degrees
};

/// What encoders are chosen for: the min step time, or the min memory.
enum class EncoderAim { kTime, kMemory };

/// Finds degrees of encoders for the devices that a backbone leaves.
///
/// Each encoder and number of microbatches keeps a Pareto front: no entry has both more devices and
/// a lower pace than another. One encoder takes the fastest entry that fits; several take the
/// fewest devices at one common pace, found by bisection. For the aim kMemory the share of memory
/// takes the place of time.
///
/// source: docs/theory/planning.md, "Degrees of encoders"
class EncoderChoices {
 public:
  /// caution: the factor on every estimate of memory
  EncoderChoices(const PlanningProblem& problem, ChainTables& tables, double caution,
                 EncoderAim aim)
      : problem_(problem),
        tables_(tables),
        estimator_(problem, tables),
        caution_(caution),
        aim_(aim) {}

  [[nodiscard]] std::vector<EncoderSet> list(std::uint64_t apart, const PlanChoice& choice,
                                             const StepEstimate& backbone);
  /// Degrees of an encoder on the backbone's ranks, all of which it uses. For each tp, with whole
  /// copies and with shards, it lists the least recompute and the fewest passes that fit, and those
  /// that may fit. All are twins except the fastest that fits and two faster ones that may fit.
  [[nodiscard]] std::vector<EncoderSet> list_colocated(std::size_t encoder,
                                                       const PlanChoice& choice,
                                                       const StepEstimate& backbone);

 private:
  [[nodiscard]] const std::vector<ChainForm>& forms_of(std::size_t encoder, std::uint64_t apart);
  void fit_colocated(ChainForm form, ChainChoice own, const PlanChoice& choice,
                     const StepEstimate& backbone, std::vector<EncoderSet>& sets);
  struct Entry {
    ChainForm form;
    ChainChoice choice;
    double pace = 0;
    double share = 0;  // of a device's memory
    std::int64_t devices = 1;
  };
  using Front = std::vector<Entry>;  // ascending by devices, descending by pace

  /// Time of a microbatch [ns], or the share of memory for the aim kMemory.
  [[nodiscard]] double pace_of(const StepEstimate& estimate) const {
    return aim_ == EncoderAim::kTime ? estimate.lane : estimate.memory_share;
  }
  [[nodiscard]] bool is_better(const StepEstimate& a, const StepEstimate& b) const {
    return aim_ == EncoderAim::kTime ? a.value() < b.value() : a.memory_share < b.memory_share;
  }

  [[nodiscard]] const Front& front_of(std::size_t encoder, std::uint64_t apart,
                                      std::int64_t microbatches, std::int64_t max_stages);
  void add_choices(std::size_t encoder, const ChainForm& form, std::int64_t microbatches,
                   std::int64_t max_stages, Front& front);
  [[nodiscard]] std::optional<EncoderSet> match(std::uint64_t apart, const PlanChoice& choice,
                                                const StepEstimate& backbone,
                                                std::int64_t max_stages);
  /// Degrees that use every device the backbone leaves, at the fastest common pace.
  [[nodiscard]] std::optional<EncoderSet> match_all(std::uint64_t apart, const PlanChoice& choice,
                                                    const StepEstimate& backbone,
                                                    std::int64_t max_stages);
  [[nodiscard]] std::optional<EncoderSet> set_of(const std::vector<const Entry*>& chosen,
                                                 const PlanChoice& choice,
                                                 const StepEstimate& backbone);
  [[nodiscard]] std::optional<EncoderSet> same_degrees(std::uint64_t apart,
                                                       const PlanChoice& choice,
                                                       const StepEstimate& backbone,
                                                       std::int64_t stages);

  const PlanningProblem& problem_;
  ChainTables& tables_;
  StepEstimator estimator_;
  double caution_;
  EncoderAim aim_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<ChainForm>> forms_;
  std::map<std::tuple<std::size_t, std::uint64_t, std::int64_t, std::int64_t>, Front> fronts_;
};

}  // namespace tributary::plan
