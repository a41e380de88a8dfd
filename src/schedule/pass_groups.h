#pragma once

#include <algorithm>
#include <cstdint>

namespace tributary::schedule {

/// Which consecutive microbatches a colocated module encodes in one pass: groups that are as even
/// as possible. Microbatches that hold nothing belong to the last group.
struct PassGroups {
  std::int64_t passes = 1;        // at most as many as microbatches
  std::int64_t microbatches = 1;  // that hold samples

  PassGroups(std::int64_t max_passes, std::int64_t count)
      : passes(std::clamp<std::int64_t>(max_passes, 1, std::max<std::int64_t>(1, count))),
        microbatches(std::max<std::int64_t>(1, count)) {}

  [[nodiscard]] std::int64_t pass_of(std::int64_t microbatch) const {
    return std::min(microbatch, microbatches - 1) * passes / microbatches;
  }
  /// The first microbatch of a pass; of the pass after the last one: the number of microbatches.
  [[nodiscard]] std::int64_t first_of(std::int64_t pass) const {
    return (pass * microbatches + passes - 1) / passes;
  }
};

}  // namespace tributary::schedule
