#pragma once

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// Max messages in flight on one link: between two lanes in one direction, for activations or for
/// gradients; or along an edge. An edge of a colocated module has buffers for the whole step, and
/// posts its receives at once where it carries one batch.
struct Buffers {
  int receive = 2;  // posted and not yet used by a pass
  int send = 2;     // sent and not yet received; the next one waits

  friend bool operator==(const Buffers&, const Buffers&) = default;
};

/// Puts sends, receives, reductions and the optimizer step between the passes: a send right after
/// its pass; a receive as soon as the link has a free buffer, in the order of use; the reduction of
/// a chunk after its last weight gradient. Receives for the step after come first. The step ends
/// after the passes of a module ahead, so its lanes meet for the optimizer too.
///
/// errors: Fault::kBug when the lists do not belong to the pipeline
/// source: docs/theory/parallelism.md, "Lists of actions"
[[nodiscard]] Schedule lower_schedule(const Schedule& passes, const Buffers& buffers);

/// The transfers before and after a pass, as actions of its own lane.
struct PassTransfers {
  std::vector<Action> receives;
  std::vector<Action> sends;  // and LC
};
[[nodiscard]] PassTransfers transfers_of(const PipelineMap& map, int lane, const Action& pass);

/// The features for the step after that a lane receives in this one, in the order of their use.
[[nodiscard]] std::vector<Action> receives_ahead(const PipelineMap& map, int lane);

/// The other end of a transfer: its action on the other lane.
struct FarEnd {
  int lane;
  Action action;
};
/// errors: Fault::kBug when the action is neither a send nor a receive
[[nodiscard]] std::vector<FarEnd> far_ends_of(const PipelineMap& map, int lane,
                                              const Action& transfer);

}  // namespace tributary::schedule
