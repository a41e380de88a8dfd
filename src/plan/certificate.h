#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/units.h"

namespace tributary::plan {

/// How a search ended.
enum class Status {
  kOptimal,     // proven: value and lower_bound meet, but for the rounding to whole nanoseconds
  kFeasible,    // a plan, and a bound below it
  kInfeasible,  // no plan; `limit` says why
  kTruncated,   // the budget of evaluations ended it; value and bound hold
};

/// What a search proves about its answer.
struct Certificate {
  Nanoseconds value = {};        // of the answer
  Nanoseconds lower_bound = {};  // no answer is below
  Status status = Status::kInfeasible;
  std::int64_t evaluations = 0;  // candidates whose value was computed
  std::string limit = {};        // of an infeasible problem: what binds, and by how much

  /// value / lower_bound - 1; 0 of what is proven optimal
  [[nodiscard]] double gap() const {
    if (value == lower_bound || status == Status::kOptimal) return 0.0;
    return static_cast<double>(value.count) / static_cast<double>(lower_bound.count) - 1.0;
  }
};

/// The better of two answers, over both of their spaces: proven only where its value is the lower
/// of their bounds, truncated where either search is. Of a space without a plan the bound counts
/// where it has one, and where neither has a plan `other` says why.
[[nodiscard]] Certificate join(const Certificate& one, const Certificate& other);

[[nodiscard]] constexpr std::string_view name_of(Status status) {
  switch (status) {
    case Status::kOptimal:
      return "optimal";
    case Status::kFeasible:
      return "feasible";
    case Status::kInfeasible:
      return "infeasible";
    case Status::kTruncated:
      return "truncated";
  }
  return "";
}

}  // namespace tributary::plan
