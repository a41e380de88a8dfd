#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "simulate/program/step_load.h"

namespace tributary::simulate {

/// The min over no chains.
inline constexpr Nanoseconds kUnbounded{std::numeric_limits<std::int64_t>::max()};

/// The longest chain before and after each pass, by dependencies only, for any order of the passes
/// on each lane. A pass is followed by the reduction of its gradients; all passes and reductions of
/// a lane are followed by the step. Lanes `ahead` may have done their work before the step begins,
/// so their passes are in no chain before another pass.
///
/// shape: ahead [lanes]; empty: none
/// owns:  nothing of what it is given, which must outlive it
/// cost:  O(actions + messages)
class StepChains {
 public:
  StepChains(const StepProgram& program, const StepLoad& load, const Network& network,
             const std::vector<bool>& ahead);

  /// Min time from the beginning of the step to the pass, and from the end of the pass to that of
  /// the step.
  [[nodiscard]] Nanoseconds before(int pass) const { return head_[pass]; }
  [[nodiscard]] Nanoseconds after(int pass) const { return tail_[pass]; }
  /// All passes that are not ahead, each after those it depends on.
  [[nodiscard]] const std::vector<int>& passes() const { return order_; }
  [[nodiscard]] bool is_ahead(int lane) const { return !ahead_.empty() && ahead_[lane]; }
  /// The pass that computes a message.
  [[nodiscard]] int giver_of(int message) const;
  /// Time of a reduction on its slowest member.
  [[nodiscard]] Nanoseconds reduction(int meeting) const { return reduction_[meeting]; }
  /// From the beginning of the first optimizer step to the end of the last one.
  [[nodiscard]] Nanoseconds step() const { return step_; }

 private:
  void find_meetings();
  void order_passes();
  template <class Visit>
  void for_same_pass(int pass, const Visit& visit) const;
  template <class Visit>
  void for_needs(int pass, const Visit& visit) const;
  [[nodiscard]] Nanoseconds travel(int message) const;
  [[nodiscard]] Nanoseconds min_travel(int channel) const;
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
  Nanoseconds colocated_;  // reductions of colocated modules, one after the other
  Nanoseconds step_;
  std::vector<int> order_;
  std::vector<Nanoseconds> head_;       // [actions]
  std::vector<Nanoseconds> tail_;       // [actions]
  std::vector<int> batches_;            // channels that carry whole batches
  std::vector<Nanoseconds> head_gate_;  // [lanes] computed on demand; -1: not yet
  std::vector<Nanoseconds> tail_gate_;  // [lanes]
};

}  // namespace tributary::simulate
