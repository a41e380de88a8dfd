#pragma once

#include <string>
#include <vector>

namespace tributary::config {

/// The names that may stand directly below `prefix`.
[[nodiscard]] std::vector<std::string> names_below(const std::string& prefix);

/// Says what to write instead of an unknown key: the key of that meaning here, the nearest known
/// key, or all keys of the section.
///
/// inputs: `path` is the prefix as the table writes it, `shown` as the user does
[[nodiscard]] std::string advice_for_unknown_key(const std::string& path, const std::string& shown,
                                                 const std::string& name);

}  // namespace tributary::config
