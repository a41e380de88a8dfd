#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/result.h"

namespace tributary {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  int max_depth = 32;
};

/// Parses strict JSON: UTF-8, no duplicate key, nothing after the value, bounded size and depth.
///
/// units:  `where` names the source in the message, for example `train.jsonl:12`
/// errors: Fault::kInput with the byte and what was wrong
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where,
                              JsonLimits limits = {});

/// As parse_json, for a caller that counts what is wrong. The refusal's code is `too_large`,
/// `too_deep`, `duplicate_key`, `not_utf8` or `not_json`; its reason names the byte, counted
/// from 1.
[[nodiscard]] Result<Json> try_parse_json(std::string_view text, JsonLimits limits = {});

}  // namespace tributary
