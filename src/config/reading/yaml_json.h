#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace tributary::config {

/// Reads plain YAML (maps, lists, scalars) as the JSON value that it spells: bare numbers are
/// numbers, true and false are flags, the rest are texts.
///
/// errors: as parse_yaml, and Fault::kInput for duplicate keys, anchors and tags
[[nodiscard]] Json parse_yaml_as_json(std::string_view text, const std::string& where);

/// Reads the text of an artifact; `expected` names its format page for messages.
///
/// errors: Fault::kInput when it cannot be read
[[nodiscard]] std::string read_artifact(const std::string& path, const std::string& expected);

}  // namespace tributary::config
