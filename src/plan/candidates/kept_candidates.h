#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/candidates/cell_expansion.h"
#include "plan/candidates/list_candidates.h"

namespace tributary::plan {

/// A heap of the best choices so far, the worst on top.
class Kept {
 public:
  explicit Kept(std::int64_t max) : max_(max) {}

  /// highest: estimates above this are of no use
  void offer(const PlanChoice& choice, double estimate, double highest) {
    ++offered_;
    if (estimate >= limit(highest)) return;
    best_ = std::min(best_, estimate);
    heap_.push_back({{.choice = choice, .estimate = estimate}, offered_});
    std::push_heap(heap_.begin(), heap_.end(), is_better);
    shrink(max_);
  }
  void shrink(std::int64_t max) {
    for (max_ = max; std::ssize(heap_) > max_; heap_.pop_back())
      std::pop_heap(heap_.begin(), heap_.end(), is_better);
  }
  /// Estimates from this value on are refused.
  [[nodiscard]] double limit(double highest) const {
    return std::ssize(heap_) < max_ ? highest : std::min(highest, heap_.front().candidate.estimate);
  }
  [[nodiscard]] double best() const { return best_; }
  [[nodiscard]] std::int64_t offered() const { return offered_; }
  [[nodiscard]] std::vector<Candidate> take(double highest) {
    std::sort(heap_.begin(), heap_.end(), is_better);
    std::vector<Candidate> candidates;
    for (Entry& entry : heap_)
      if (entry.candidate.estimate <= highest) candidates.push_back(std::move(entry.candidate));
    return candidates;
  }

 private:
  struct Entry {
    Candidate candidate;
    std::int64_t number;
  };
  static bool is_better(const Entry& a, const Entry& b) {
    return a.candidate.estimate != b.candidate.estimate
               ? a.candidate.estimate < b.candidate.estimate
               : a.number < b.number;
  }

  std::int64_t max_;
  std::vector<Entry> heap_;
  std::int64_t offered_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

/// The best choices so far, in two lists: surely fits, and may fit. Both drop what is slower than
/// `within` times the best that surely fits. A fast choice that may fit is often one that does not,
/// so it must not displace those that do.
struct KeptChoices {
  KeptChoices(std::int64_t room_for, std::int64_t room_for_unsure, double within_best)
      : room(room_for),
        room_of_unsure(room_for_unsure),
        within(within_best),
        sure(room_for),
        unsure(room_for) {}

  void offer(const PlanChoice& choice, double estimate, bool fits) {
    (fits ? sure : unsure).offer(choice, estimate, highest());
    if (offered() > room) unsure.shrink(room_of_unsure);  // the others fill its slots anyway
  }

  /// The fastest of both lists. Each has a quarter of the slots, and what the other one leaves.
  [[nodiscard]] std::vector<Candidate> take() {
    const auto max = static_cast<std::size_t>(room);
    const std::size_t quarter = quarter_of(max);
    std::vector<Candidate> fitting = sure.take(highest());
    std::vector<Candidate> taken = unsure.take(highest());
    while (taken.size() + fitting.size() > max) {
      const bool drops_unsure =
          taken.size() > quarter &&
          (fitting.size() <= quarter || taken.back().estimate >= fitting.back().estimate);
      (drops_unsure ? taken : fitting).pop_back();
    }
    taken.insert(taken.end(), fitting.begin(), fitting.end());
    return taken;
  }

  [[nodiscard]] std::int64_t offered() const { return sure.offered() + unsure.offered(); }
  /// Estimates from this value on are refused, whether the choice fits or only may fit.
  [[nodiscard]] double limit() const { return std::max(sure_limit(), unsure.limit(highest())); }
  [[nodiscard]] double sure_limit() const { return sure.limit(highest()); }

  std::int64_t room;
  std::int64_t room_of_unsure;
  double within;
  Kept sure;
  Kept unsure;

 private:
  [[nodiscard]] double highest() const { return within * sure.best(); }
};

/// Keeps colocated encoders in slots of their own, a quarter as many again: a small error of the
/// closed form would otherwise let one placement displace the others. Their twins get the slots
/// left over. Encoders with the backbone's degrees may take a quarter of the other slots, because
/// the closed form does not see that they do better on slow links.
class KeptByPlacement final : public ChoiceTaker {
 public:
  KeptByPlacement(std::int64_t max, double within)
      : colocated_(quarter_of(max), quarter_of(max), within),
        twins_(colocated_),
        others_(max, quarter_of(max), within),
        alike_(others_) {}

  void offer(const PlanChoice& choice, const StepEstimate& estimate, bool fits,
             ChoiceKind kind) override {
    KeptChoices& kept = kind == ChoiceKind::kColocated ? colocated_
                        : kind == ChoiceKind::kTwin    ? twins_
                        : kind == ChoiceKind::kAlike   ? alike_
                                                       : others_;
    kept.offer(choice, estimate.value(), fits);
  }
  [[nodiscard]] double limit(bool is_colocated) const override { return of(is_colocated).limit(); }
  /// Estimates from this value on are refused even when the choice surely fits.
  [[nodiscard]] double sure_limit(bool is_colocated) const { return of(is_colocated).sure_limit(); }
  [[nodiscard]] std::vector<Candidate> take() {
    std::vector<Candidate> more = colocated_.take();
    twins_.room -= std::ssize(more);
    append(twins_.take(), more);
    const std::int64_t max = others_.room;
    alike_.room = std::max(quarter_of(max), max - others_.offered());
    std::vector<Candidate> taken = alike_.take();
    const double slowest = others_.within * others_.sure.best();
    std::erase_if(taken, [&](const Candidate& each) { return each.estimate > slowest; });
    others_.room = max - std::ssize(taken);
    append(others_.take(), taken);
    append(std::move(more), taken);
    std::stable_sort(taken.begin(), taken.end(), [](const Candidate& a, const Candidate& b) {
      return a.estimate < b.estimate;
    });
    return taken;
  }
  [[nodiscard]] std::int64_t offered() const {
    return colocated_.offered() + twins_.offered() + alike_.offered() + others_.offered();
  }

 private:
  [[nodiscard]] const KeptChoices& of(bool is_colocated) const {
    return is_colocated ? colocated_ : others_;
  }
  static void append(std::vector<Candidate> more, std::vector<Candidate>& taken) {
    taken.insert(taken.end(), more.begin(), more.end());
  }

  KeptChoices colocated_;
  KeptChoices twins_;
  KeptChoices others_;
  KeptChoices alike_;  // uses slots of others_
};

}  // namespace tributary::plan
