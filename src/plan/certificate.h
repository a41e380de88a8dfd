#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/units.h"

namespace tributary::plan {

/// How a search ended.
enum class Status {
  kOptimal,     // proven: value equals lower_bound, up to whole nanoseconds
  kFeasible,    // there is an answer, and a bound below it
  kInfeasible,  // there is no answer; `limit` says why
  kTruncated,   // the budget of evaluations ran out; value and bound hold
};

/// What a search proves about its answer.
struct Certificate {
  Nanoseconds value = {};        // of the answer
  Nanoseconds lower_bound = {};  // no answer is below this
  Status status = Status::kInfeasible;
  std::int64_t evaluations = 0;  // candidates whose value was computed
  std::string limit = {};        // when infeasible: what binds, and by how much

  /// value / lower_bound - 1; 0 when proven optimal
  [[nodiscard]] double gap() const {
    if (value == lower_bound || status == Status::kOptimal) return 0.0;
    return static_cast<double>(value.count) / static_cast<double>(lower_bound.count) - 1.0;
  }
};

/// The better of the answers of two searches, for the union of their spaces. It is optimal only
/// where its value is the lower of both bounds, and truncated where either search is. A space
/// without an answer counts with its bound, if any; where neither has an answer `other` says why.
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
