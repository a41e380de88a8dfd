#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <source_location>
#include <string>
#include <string_view>

#include "core/error.h"

namespace tributary::config {

/// The entry of a table that has this name.
///
/// errors: Fault::kInput with `parts`, after expected was filled in
template <class Entry, std::size_t kEntries>
[[nodiscard]] const Entry& entry_of(
    const Entry (&table)[kEntries], std::string_view name, ErrorParts parts,
    std::source_location raised_at = std::source_location::current()) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const Entry& each) { return each.name == name; });
  if (found != std::end(table)) return *found;
  for (const Entry& each : table)
    parts.expected += (parts.expected.empty() ? "" : ", ") + std::string(each.name);
  raise(Fault::kInput, parts, raised_at);
}

}  // namespace tributary::config
