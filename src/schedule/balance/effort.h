#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "schedule/balance/balance.h"

namespace tributary::schedule {

/// Counts evaluations against a budget, and polls the clock, if any, every 16,384 of them.
class Effort {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  /// Allows at most `max` evaluations, even if the budget has more.
  explicit Effort(const BalanceBudget& budget, std::int64_t max = kNoLimit)
      : is_late_(budget.is_late ? &budget.is_late : nullptr),
        max_(budget.is_late ? max : std::min(max, budget.evaluations)) {}

  /// Counts evaluations; false once they are used up.
  bool spend(std::int64_t evaluations) {
    spent_ += evaluations;
    is_over_ = is_over_ || spent_ >= max_;
    if (!is_over_ && is_late_ != nullptr && spent_ >= ask_at_) {
      is_over_ = (*is_late_)();
      ask_at_ = spent_ + kAskEvery;
    }
    return !used_up();
  }
  /// Allows at most `evaluations` more, until the next call.
  void allow(std::int64_t evaluations) {
    allowed_ = evaluations < kNoLimit - spent_ ? spent_ + evaluations : kNoLimit;
  }
  /// Whether the present allowance is used up.
  [[nodiscard]] bool used_up() const { return is_over_ || spent_ >= allowed_; }
  /// Whether the whole budget is used up.
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] std::int64_t spent() const { return spent_; }

 private:
  static constexpr std::int64_t kAskEvery = 16384;

  const std::function<bool()>* is_late_;
  std::int64_t max_;
  std::int64_t spent_ = 0;
  std::int64_t ask_at_ = 0;
  std::int64_t allowed_ = kNoLimit;
  bool is_over_ = false;
};

}  // namespace tributary::schedule
