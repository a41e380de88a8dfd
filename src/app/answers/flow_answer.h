#pragma once

#include <string_view>

#include "core/json.h"

namespace tributary::app {

/// Chooses a candidate for every module so that the common pace is as fast as possible.
///
/// units:  problem: `devices`, `order` (exact, published), `encoders` (a list) and `backbone`, each
///         {name, candidates: [{devices, period_ns}]}; `where` names it in messages
/// errors: Fault::kInput that lists everything wrong by key path
[[nodiscard]] Json answer_flow(const Json& problem, std::string_view where);

}  // namespace tributary::app
