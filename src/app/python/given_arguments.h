#pragma once

#include "app/answer/given_options.h"
#include "core/json.h"

namespace tributary::app {

/// What a call gave: `arguments` by name, where the package leaves out those that are None; a flag
/// that is False is not given.
[[nodiscard]] GivenOptions given_arguments(const Json& arguments, bool has_lengths);

}  // namespace tributary::app
