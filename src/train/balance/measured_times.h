#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/artifact/module_graph.h"
#include "config/plan/plan.h"
#include "config/run/run_config.h"
#include "core/sample_shape.h"
#include "cost/module_cost.h"
#include "cost/profile_costs.h"

namespace tributary::train {

/// Times of a training step's passes by a measured profile: what balancing compares where
/// `batch.costs` names one, in place of FLOPs.
///
/// A sequence or an image takes its part of a full pass of others of its length: products by its
/// items, attention by its length. So times of one pass add up.
class MeasuredTimes {
 public:
  /// Ranks and threads are those of the run, on the profile's machine.
  ///
  /// errors: Fault::kInput for a profile of another model, or one that lacks layers at the tp of
  ///         the plan, naming the table
  MeasuredTimes(const config::RunConfig& config, const config::Plan& plan, std::int64_t ranks,
                std::int64_t threads);

  /// Forward and backward of a module, recompute included, on each of its tp ranks.
  ///
  /// units: items are tokens, patches or positions of sound; pairs are the sum of the squared
  /// lengths
  [[nodiscard]] Nanoseconds time_of(const std::string& module, double items, double pairs) const;
  /// Of a module in front of the backbone, on an item as ItemForm::inside gives it.
  [[nodiscard]] Nanoseconds time_of(const std::string& module, const Grid& inside) const;

 private:
  struct Module {
    config::ModuleNode node;
    cost::ModuleExecution execution;
    double full = 0;  // items of a full pass
  };

  cost::ProfileCosts costs_;
  std::map<std::string, Module> modules_;
};

}  // namespace tributary::train
