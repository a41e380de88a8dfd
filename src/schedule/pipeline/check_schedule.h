#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/pipeline/lower_schedule.h"

namespace tributary::schedule {

/// What a schedule must keep.
enum class Rule {
  kKnownAction,     // every action is one that the pipeline needs
  kOnce,            // nothing is there twice
  kComplete,        // nothing is missing
  kPassOrder,       // on a lane F before B before W
  kWeightOrder,     // weight gradients of a chunk in data order: every order adds up the same bits
  kPeer,            // a transfer names the lane or edge that its pass leads to
  kTransferPlace,   // a receive before its pass, a send after it, a reduction after the last W
  kLinkOrder,       // a link is read in the order in which it is written
  kReceiveBuffers,  // no more receives are posted than a link has buffers
  kDeadlock,        // all lanes come to their end
  kInFlight,        // no lane keeps more activations than promised
};

[[nodiscard]] std::string_view name_of(Rule rule);

struct Violation {
  Rule rule;
  std::string where;  // lane
  std::string found;
};

/// Holds a schedule, of passes or lowered, against every rule. A schedule that any program or
/// person wrote is safe to run when nothing is returned.
///
/// cost: O(actions * log(actions)); rules that would follow from a broken one are not reported
[[nodiscard]] std::vector<Violation> check_schedule(const Schedule& schedule,
                                                    const Buffers& buffers);

/// errors: Fault::kInput listing the violations, 20 at most
void require_valid(const Schedule& schedule, const Buffers& buffers);

}  // namespace tributary::schedule
