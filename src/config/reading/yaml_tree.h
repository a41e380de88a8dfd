#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/reading/problems.h"

namespace tributary::config {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

/// One value of a YAML text, with the place that messages name.
struct YamlNode {
  enum class Kind { kNothing, kScalar, kList, kMap };

  Kind kind = Kind::kNothing;
  std::string text = {};   // of a scalar
  bool quoted = false;     // a quoted scalar is always a text
  std::string where = {};  // `run.yaml:12`
  std::vector<YamlNode> items = {};
  std::vector<std::pair<std::string, YamlNode>> entries = {};  // in the order of the text
};

/// Describes a node for messages: the scalar itself, `a list`, `a map`, `nothing`.
[[nodiscard]] std::string describe_found(const YamlNode& node);

/// Parses one YAML document of plain maps, lists and scalars. An empty text gives kNothing.
///
/// errors: Fault::kInput for text that is no YAML, larger than 1 MiB, no UTF-8 or with a byte order
///         mark; `problems` gets duplicate keys, anchors, aliases, merge keys, tags and keys that
///         are no text, each with its line
[[nodiscard]] YamlNode parse_yaml(std::string_view text, const std::string& file,
                                  Problems& problems);

}  // namespace tributary::config
