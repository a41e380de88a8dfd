#pragma once

#include <map>
#include <vector>

#include "plan/candidates/encoder_choices.h"
#include "plan/candidates/list_degrees.h"
#include "plan/candidates/listed_choices.h"
#include "plan/chains/estimate_step.h"

namespace tributary::plan {

/// The kinds of choices; each has slots of its own in the list of candidates.
enum class ChoiceKind {
  kColocated,  // an encoder shares the backbone's ranks
  kTwin,       // as kColocated, but nearly the same as another choice
  kAlike,      // encoders have the backbone's degrees
  kOther
};

/// Receives the choices of an expansion.
class ChoiceTaker {
 public:
  virtual ~ChoiceTaker() = default;
  /// fits: true when the closed form is sure that it fits; false when it may fit.
  virtual void offer(const PlanChoice& choice, const StepEstimate& estimate, bool fits,
                     ChoiceKind kind) = 0;
  /// Estimates [ns] from this value on are refused, whether the choice fits or only may fit.
  [[nodiscard]] virtual double limit(bool is_colocated) const = 0;
};

/// Expands cells, one after another, into complete choices.
class CellExpansion {
 public:
  /// caution: the factor on every estimate of memory
  CellExpansion(const PlanningProblem& problem, ChainTables& tables, double caution,
                ChoiceTaker& taker, EncoderAim aim = EncoderAim::kTime)
      : problem_(problem),
        encoders_(encoders_of(problem).size()),
        estimator_(problem, tables),
        encoder_choices_(problem, tables, caution, aim),
        caution_(caution),
        taker_(taker) {}

  void expand(const ChainForm& form, const Cell& cell);
  /// The number of backbones so far that have a valid schedule.
  [[nodiscard]] std::int64_t backbones() const { return backbones_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> chunks_of(config::PipelineOrder order,
                                                    const Cell& cell) const;
  [[nodiscard]] bool has_1f1b() const;
  void place_recompute(const ChainForm& form, const Cell& cell, PlanChoice& choice);
  [[nodiscard]] const std::vector<RecomputeChoice>& recompute_of(std::uint64_t apart);
  bool place_encoders(const ChainForm& form, const Cell& cell, PlanChoice& choice);
  [[nodiscard]] bool uses_all(const PlanChoice& choice) const;
  bool offer(const PlanChoice& choice, const StepEstimate& estimate, ChoiceKind kind);

  const PlanningProblem& problem_;
  std::size_t encoders_;
  StepEstimator estimator_;
  EncoderChoices encoder_choices_;
  double caution_;
  ChoiceTaker& taker_;
  std::map<std::uint64_t, std::vector<RecomputeChoice>> recompute_;  // by the set of encoders apart
  std::int64_t backbones_ = 0;
};

/// The max microbatches of a V: its lists take long to make for more, and more gain little.
inline constexpr std::int64_t kMaxMicrobatchesOfV = 64;

}  // namespace tributary::plan
