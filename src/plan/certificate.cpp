#include "plan/certificate.h"

#include <algorithm>

namespace tributary::plan {

Certificate join(const Certificate& one, const Certificate& other) {
  const bool has_one = one.status != Status::kInfeasible;
  const bool has_other = other.status != Status::kInfeasible;
  Certificate joined = has_other || !has_one ? other : one;
  joined.evaluations = one.evaluations + other.evaluations;
  if (!has_one && !has_other) return joined;
  if (has_one && has_other) joined.value = std::min(one.value, other.value);
  for (const Certificate& each : {one, other})
    if (each.status != Status::kInfeasible || each.lower_bound.count > 0)
      joined.lower_bound = std::min(joined.lower_bound, each.lower_bound);
  const bool is_cut = one.status == Status::kTruncated || other.status == Status::kTruncated;
  joined.status = is_cut                               ? Status::kTruncated
                  : joined.value == joined.lower_bound ? Status::kOptimal
                                                       : Status::kFeasible;
  return joined;
}

}  // namespace tributary::plan
