#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/chains/estimate_step.h"

namespace tributary::plan {

/// Degrees for all encoders with ranks of their own.
struct EncoderSet {
  std::vector<std::optional<ChainChoice>> encoders;  // [encoders_of]
  StepEstimate estimate;                             // with the backbone
  bool is_twin = false;                              // hardly differs from others of the list
  bool is_alike = false;                             // of the degrees of the backbone
};

/// What encoders are chosen for: steps that take the least time, or plans that hold the least.
enum class EncoderAim { kTime, kMemory };

/// Finds degrees of encoders for the devices that a backbone leaves.
///
/// For each encoder and number of microbatches the choices that are on no more devices slower than
/// another are kept. One encoder takes the fastest that fits; several take the least devices with
/// which all keep the same pace, found by bisection. Where memory is the aim, the share of it
/// stands for the time.
///
/// source: docs/theory/planning.md, "Degrees of encoders"
class EncoderChoices {
 public:
  /// caution: that estimates of memory are taken times
  EncoderChoices(const PlanningProblem& problem, ChainTables& tables, double caution,
                 EncoderAim aim)
      : problem_(problem),
        tables_(tables),
        estimator_(problem, tables),
        caution_(caution),
        aim_(aim) {}

  [[nodiscard]] std::vector<EncoderSet> list(std::uint64_t apart, const PlanChoice& choice,
                                             const StepEstimate& backbone);
  /// Degrees of an encoder on the ranks of the backbone, which it takes all: for each tp with whole
  /// copies and with shards the least recompute and the fewest passes that fit, and what may fit.
  /// All but the fastest that fits, and two that may fit and are faster, are twins.
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
    double share = 0;  // of memory
    std::int64_t devices = 1;
  };
  using Front = std::vector<Entry>;  // ascending by devices, descending by pace

  /// Time of a round [ns], or what stands for it.
  [[nodiscard]] double pace_of(const StepEstimate& estimate) const {
    return aim_ == EncoderAim::kTime ? estimate.lane : estimate.memory_share;
  }
  [[nodiscard]] bool is_better(const StepEstimate& a, const StepEstimate& b) const {
    return aim_ == EncoderAim::kTime ? a.value() < b.value() : a.memory_share < b.memory_share;
  }

  [[nodiscard]] const Front& front_of(std::size_t encoder, std::uint64_t apart,
                                      std::int64_t microbatches, std::int64_t most_stages);
  void add_choices(std::size_t encoder, const ChainForm& form, std::int64_t microbatches,
                   std::int64_t most_stages, Front& front);
  [[nodiscard]] std::optional<EncoderSet> match(std::uint64_t apart, const PlanChoice& choice,
                                                const StepEstimate& backbone,
                                                std::int64_t most_stages);
  /// Degrees that take all devices that the backbone leaves, with the fastest pace of all encoders.
  [[nodiscard]] std::optional<EncoderSet> match_all(std::uint64_t apart, const PlanChoice& choice,
                                                    const StepEstimate& backbone,
                                                    std::int64_t most_stages);
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
