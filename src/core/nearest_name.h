#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tributary {

/// Finds the known name with the fewest edits to `name`; empty when none is near.
///
/// units: near is at most a third of the letters, and at least two edits; ties take the first name
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// The same, near being so many edits at most.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known,
                                       std::size_t most_edits);

}  // namespace tributary
