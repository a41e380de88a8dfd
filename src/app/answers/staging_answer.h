#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace tributary::app {

/// The names of the methods: exact, then the published systems.
[[nodiscard]] std::vector<std::string> staging_methods();

/// Groups modules into stages that run one after another, the modules of a stage side by side.
///
/// units:  problem: `modules`, a list of {name, after: [names], times_ns: [widths][units],
///         bandwidth: [units], memory_bytes: [widths]}, `devices`, `units`, `memory_bytes`,
///         `interference` {form, base, sum, pair}, `method`, `evaluations`; `where` names it in
///         messages
/// errors: Fault::kInput that lists everything wrong by key path
[[nodiscard]] Json answer_staging(const Json& problem, std::string_view where);

/// Fits how much modules on one device slow each other down.
///
/// units:  problem: `points`, a list of {alone_ns, together_ns, bandwidth: [of all on the device,
///         itself first]}, and `form`; without one the form that predicts held-out points better.
///         Answer: `interference` {form, base, sum, pair}, `error` on the held-out points,
///         `error_in_fit`, `held_out`
/// errors: Fault::kInput that lists everything wrong by key path, or names the point
[[nodiscard]] Json answer_interference(const Json& problem, std::string_view where);

}  // namespace tributary::app
