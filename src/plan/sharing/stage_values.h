#pragma once

#include <vector>

#include "plan/sharing/place_shared.h"
#include "plan/sharing/place_stage.h"
#include "plan/sharing/share_options.h"

namespace tributary::plan {

/// Min times of stages, computed on demand and remembered.
///
/// owns: what it has proven about each set of modules; the problem must outlive it
class StageValues {
 public:
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;  // of a set that does not fit

  /// steps: max placements tried over all stages where modules slow each other
  StageValues(const SharingProblem& problem, std::int64_t steps);

  /// No placement of the modules is faster. The bound rises as more is proven.
  [[nodiscard]] std::int64_t lower_bound(ModuleSet modules);
  /// Whether the modules can end before a time; if so, value() is known.
  [[nodiscard]] bool is_below(ModuleSet modules, std::int64_t time);
  /// The min time of the stage; kNever when it does not fit.
  [[nodiscard]] std::int64_t value(ModuleSet modules);
  /// A placement with that time; empty when it does not fit.
  [[nodiscard]] std::vector<PlacedModule> place(ModuleSet modules);

  [[nodiscard]] const ShareOptions& options() const { return options_; }
  /// The number of stages whose time had to be searched for.
  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
  /// Whether all values so far are proven; false when steps ran out.
  [[nodiscard]] bool is_exact() const { return is_exact_; }

 private:
  struct Known {
    std::int64_t min = -1;  // lower bound; -1: nothing known yet
    bool is_value = false;  // the bound is reached
  };
  [[nodiscard]] bool is_plain(ModuleSet modules) const;
  [[nodiscard]] bool search_plain(ModuleSet modules, std::int64_t time);
  [[nodiscard]] bool search_shared(ModuleSet modules, std::int64_t time);

  const SharingProblem& problem_;
  ShareOptions options_;
  StagePlacer plain_;
  SharedPlacer shared_;
  std::vector<Known> known_;  // [sets of modules]
  std::int64_t steps_left_;
  std::int64_t evaluations_ = 0;
  bool is_exact_ = true;
};

}  // namespace tributary::plan
