#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "schedule/balance/balance.h"

namespace tributary::schedule {

/// Counts evaluations against a budget; asks the clock, where there is one, every 16,384 of them.
class Effort {
 public:
  /// At most `most` evaluations, whatever the budget allows.
  explicit Effort(const BalanceBudget& budget,
                  std::int64_t most = std::numeric_limits<std::int64_t>::max())
      : is_late_(budget.is_late ? &budget.is_late : nullptr),
        most_(budget.is_late ? most : std::min(most, budget.evaluations)) {}

  /// Counts; false once the budget is used up.
  bool spend(std::int64_t evaluations) {
    spent_ += evaluations;
    used_up_ = used_up_ || spent_ >= most_;
    if (!used_up_ && is_late_ != nullptr && spent_ >= ask_at_) {
      used_up_ = (*is_late_)();
      ask_at_ = spent_ + kAskEvery;
    }
    return !used_up_;
  }
  [[nodiscard]] bool used_up() const { return used_up_; }
  [[nodiscard]] std::int64_t spent() const { return spent_; }

 private:
  static constexpr std::int64_t kAskEvery = 16384;

  const std::function<bool()>* is_late_;
  std::int64_t most_;
  std::int64_t spent_ = 0;
  std::int64_t ask_at_ = 0;
  bool used_up_ = false;
};

}  // namespace tributary::schedule
