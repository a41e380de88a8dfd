#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tributary {

/// Finds the known name with the fewest edits to `name`; empty when none is near.
///
/// units: a name is near within max(2, letters / 3) edits; the first name wins a tie
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// As above, where a name is near within `max_edits` edits.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> known,
                                       std::size_t max_edits);

}  // namespace tributary
