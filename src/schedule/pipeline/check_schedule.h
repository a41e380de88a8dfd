#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/pipeline/lower_schedule.h"

namespace tributary::schedule {

/// The rules of a schedule.
enum class Rule {
  kKnownAction,     // every action is one that the pipeline needs
  kOnce,            // no action is there twice
  kComplete,        // no action is missing
  kPassOrder,       // on a lane F comes before B, B before W
  kWeightOrder,     // weight gradients of a chunk are in data order, so sums are equal to the bit
  kPeer,            // a transfer names the lane or edge of its pass
  kTransferPlace,   // a receive is before its pass, a send after it, a reduction after the last W
  kLinkOrder,       // a link is read in the order in which it is written
  kReceiveBuffers,  // a link has no more posted receives than buffers
  kDeadlock,        // all lanes reach their end
  kInFlight,        // no lane keeps more activations than promised
  kTurns,           // of lanes on the same ranks that take turns, one at a time runs passes
};

[[nodiscard]] std::string_view name_of(Rule rule);

struct Violation {
  Rule rule;
  std::string where;  // lane
  std::string found;
};

/// Checks a schedule, of passes or lowered, against every rule. When it returns nothing, the
/// schedule is safe to run, whoever wrote it.
///
/// cost: O(actions * log(actions)); violations that follow from another one are not reported
[[nodiscard]] std::vector<Violation> check_schedule(const Schedule& schedule,
                                                    const Buffers& buffers);

/// errors: Fault::kInput listing at most 20 violations
void require_valid(const Schedule& schedule, const Buffers& buffers);

}  // namespace tributary::schedule
