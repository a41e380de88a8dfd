#include "schedule/pipeline/in_flight.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::schedule {
namespace {

std::int64_t change_of(Op op, const KeptAfter& kept, bool trains) {
  switch (op) {
    case Op::kForward:
      return kept.forward;
    case Op::kBackwardInput:
      return trains ? kept.backward_input : -kept.forward;
    case Op::kBackwardWeight:
      return kept.backward_weight;
    case Op::kBackward:
      return kept.backward_input + kept.backward_weight;
    default:
      return 0;
  }
}

}  // namespace

std::int64_t peak_in_flight(const PipelineMap& map, int lane, const ActionList& list,
                            std::span<const KeptAfter> kept) {
  const Lane of = map.at(lane);
  const PipelineModule& module = map.pipeline().modules[of.module];
  TRIB_CHECK(kept.empty() || std::ssize(kept) == module.virtual_stages(),
             .what = "schedule: kept is not given for each virtual stage",
             .found = str(kept.size()), .expected = str(module.virtual_stages()));
  for (const KeptAfter& each : kept)
    TRIB_CHECK(each.forward + each.backward_input + each.backward_weight == 0,
               .what = "schedule: what passes keep does not add up to nothing",
               .found = str(each.forward, ", ", each.backward_input, ", ", each.backward_weight));
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const Action& action : list) {
    if (!is_pass(action.op)) continue;
    const int virtual_stage = map.virtual_stage(of.module, of.stage, action.chunk);
    if (!map.has_backward(of.module, virtual_stage)) continue;
    live += change_of(action.op, kept.empty() ? KeptAfter{} : kept[virtual_stage],
                      module.has_weights_of(virtual_stage));
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace tributary::schedule
