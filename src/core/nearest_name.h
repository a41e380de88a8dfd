#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tributary {

/// Finds the known name with the fewest edits to `name`; empty when none is near.
///
/// units: near is at most a third of the letters, and at least two edits; ties take the first name
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known);

}  // namespace tributary
