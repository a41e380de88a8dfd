#pragma once

#include <string_view>

#include "core/json.h"

namespace tributary::app {

/// Cuts a chain of units into pipeline stages with the cheapest recompute level that fits.
///
/// units:  problem: `units`, a list of {forward_ns, input_gradient_ns, weight_gradient_ns,
///         recompute_selective_ns, recompute_full_ns, state_bytes, activation_bytes,
///         activation_selective_bytes, activation_full_bytes}, `stages`, `microbatches`,
///         `boundary_ns`, `memory_bytes`, `stages_behind`, `polish`; `where` names it in messages
/// errors: Fault::kInput that lists everything wrong by key path
[[nodiscard]] Json answer_split(const Json& problem, std::string_view where);

}  // namespace tributary::app
