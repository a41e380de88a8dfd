#pragma once

#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// Longest chains before and after each pass, by what it needs alone, in any order of the passes on
/// each lane. Behind a pass comes the reduction of the gradients that it gives, and behind all
/// passes and reductions of its lane the step. What lanes `ahead` have done may have been done
/// before the step begins, so that it is in no chain before a pass.
///
/// shape: ahead [lanes]; empty: none
/// owns:  nothing of what it is given, which must outlive it
/// cost:  O(actions + messages)
class StepChains {
 public:
  StepChains(const StepProgram& program, const StepLoad& load, const Network& network,
             const std::vector<bool>& ahead);

  /// Least time from the beginning of the step to that of a pass, and from its end to the step's.
  [[nodiscard]] Nanoseconds before(int pass) const { return head_[pass]; }
  [[nodiscard]] Nanoseconds after(int pass) const { return tail_[pass]; }
  /// All passes that are not ahead, each behind what it needs.
  [[nodiscard]] const std::vector<int>& passes() const { return order_; }
  [[nodiscard]] bool is_ahead(int lane) const { return !ahead_.empty() && ahead_[lane]; }
  /// The pass whose result a message is.
  [[nodiscard]] int giver_of(int message) const;
  /// Of the slowest member.
  [[nodiscard]] Nanoseconds reduction(int meeting) const { return reduction_[meeting]; }
  /// From the beginning of the first optimizer step to the end of the last one.
  [[nodiscard]] Nanoseconds step() const { return step_; }

 private:
  void find_meetings();
  void order_passes();
  template <class Visit>
  void for_needs(int pass, const Visit& visit) const;
  [[nodiscard]] Nanoseconds travel(int message) const;
  [[nodiscard]] Nanoseconds least_travel(int channel) const;
  [[nodiscard]] Nanoseconds work_with(int lane, bool forward,
                                      const std::vector<Nanoseconds>& beyond) const;
  Nanoseconds gate(int lane, bool forward);
  [[nodiscard]] bool is_gated(int pass, bool forward) const;
  void begin_tails(int lane);
  void spread_head(int pass);
  void spread_tail(int pass);

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  const std::vector<bool>& ahead_;
  std::vector<double> rate_alone_;  // [channels]
  std::vector<Nanoseconds> reduction_;
  Nanoseconds colocated_;  // reductions of the colocated module, all together
  Nanoseconds step_;
  std::vector<int> order_;
  std::vector<Nanoseconds> head_;       // [actions]
  std::vector<Nanoseconds> tail_;       // [actions]
  std::vector<int> batches_;            // channels
  std::vector<Nanoseconds> head_gate_;  // [lanes] found when first asked for; -1: not yet
  std::vector<Nanoseconds> tail_gate_;  // [lanes]
};

}  // namespace tributary::simulate
