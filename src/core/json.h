#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tributary {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t most_bytes = std::size_t{16} << 20;
  int most_depth = 32;
};

/// Parses strict JSON: UTF-8, no duplicate key, nothing after the value, bounded size and depth.
///
/// units:  `where` names the source in the message, for example `train.jsonl:12`
/// errors: Fault::kInput with the byte and what was wrong
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where,
                              JsonLimits limits = {});

}  // namespace tributary
