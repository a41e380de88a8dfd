#pragma once

#include <map>
#include <vector>

#include "plan/candidates/cells.h"
#include "plan/candidates/encoder_choices.h"
#include "plan/candidates/recompute_choices.h"
#include "plan/chains/estimate_step.h"

namespace tributary::plan {

/// Kinds of choices that have places of their own.
enum class ChoiceKind {
  kColocated,  // with an encoder on the backbone's ranks
  kTwin,       // likewise, and hardly different from another
  kAlike,      // with encoders of the backbone's degrees
  kOther
};

/// What takes the choices of an expansion.
class ChoiceTaker {
 public:
  virtual ~ChoiceTaker() = default;
  /// fits: for sure, by the closed form; else it may.
  virtual void offer(const PlanChoice& choice, const StepEstimate& estimate, bool fits,
                     ChoiceKind kind) = 0;
  /// [ns] from which on nothing is taken, whether it fits or only may.
  [[nodiscard]] virtual double limit(bool is_colocated) const = 0;
};

/// Goes through the choices of one cell after another.
class CellExpansion {
 public:
  /// caution: that estimates of memory are taken times
  CellExpansion(const PlanningProblem& problem, ChainTables& tables, double caution,
                ChoiceTaker& taker, EncoderAim aim = EncoderAim::kTime)
      : problem_(problem),
        encoders_(encoders_of(problem).size()),
        estimator_(problem, tables),
        encoder_choices_(problem, tables, caution, aim),
        caution_(caution),
        taker_(taker) {}

  void expand(const ChainForm& form, const Cell& cell);
  /// Backbones so far that a schedule runs.
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
  std::map<std::uint64_t, std::vector<RecomputeChoice>> recompute_;  // by encoders apart
  std::int64_t backbones_ = 0;
};

/// The most microbatches of a V: its lists take long to make for many, which gain little by it.
inline constexpr std::int64_t kMostMicrobatchesOfV = 64;

}  // namespace tributary::plan
