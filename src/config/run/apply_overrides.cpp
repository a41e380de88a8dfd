#include <algorithm>
#include <charconv>
#include <optional>

#include "config/run/run_keys.h"
#include "config/run/run_tree.h"
#include "core/split_text.h"

namespace tributary::config {
namespace {

std::vector<std::string> split(const std::string& path) {
  const std::vector<std::string_view> parts = split_at('.', path);
  return {parts.begin(), parts.end()};
}

std::optional<std::size_t> parse_index(const std::string& text) {
  std::size_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, index);
  return failure == std::errc{} && stopped == end ? std::optional(index) : std::nullopt;
}

/// The path as the table writes it: `data.sources.0.weight` -> `data.sources[].weight`.
std::string table_path(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) {
    if (!path.empty() && parse_index(part)) {
      path += "[]";
    } else {
      path += (path.empty() ? "" : ".") + part;
    }
  }
  return path;
}

/// Parses a value, but takes a text as it is: `data.system_prompt=Say: yes` needs no second quotes.
YamlNode parse_value(const std::string& value, const Key* key, const std::string& where,
                     Problems& problems) {
  const bool quoted = value.starts_with('"') || value.starts_with('\'');
  YamlNode node{.kind = YamlNode::Kind::kScalar, .text = value, .quoted = true, .where = where};
  const bool is_text =
      key != nullptr && (key->type == KeyType::kText || key->type == KeyType::kRanks);
  if (!quoted && is_text) return node;
  node = parse_yaml(value, where, problems);
  node.where = where;
  return node;
}

/// The child of `node` on the path of an override; null after a problem was added.
YamlNode* descend(YamlNode& node, const std::string& part, const std::string& where,
                  Problems& problems) {
  if (node.kind == YamlNode::Kind::kList) {
    const std::optional<std::size_t> index = parse_index(part);
    if (!index || *index >= node.items.size()) {
      problems.add({.what = "config: override names no item of the list",
                    .where = where,
                    .found = escaped(part),
                    .expected = node.items.empty() ? "no index: the list is empty"
                                                   : str("0 to ", node.items.size() - 1)});
      return nullptr;
    }
    return &node.items[*index];
  }
  if (node.kind == YamlNode::Kind::kNothing) node.kind = YamlNode::Kind::kMap;
  if (node.kind != YamlNode::Kind::kMap) {
    problems.add({.what = "config: override goes below a value",
                  .where = where,
                  .found = describe_found(node),
                  .expected = "a section or a list"});
    return nullptr;
  }
  const auto entry = std::find_if(node.entries.begin(), node.entries.end(),
                                  [&](const auto& each) { return each.first == part; });
  if (entry != node.entries.end()) return &entry->second;
  return &node.entries.emplace_back(part, YamlNode{.where = where}).second;
}

}  // namespace

void apply_overrides(std::span<const std::string> overrides, YamlNode& tree, Problems& problems) {
  for (const std::string& override_text : overrides) {
    const std::size_t equals = override_text.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.add({.what = "config: override is not key.path=value",
                    .where = "command line",
                    .found = escaped(override_text),
                    .expected = "for example run.steps=100"});
      continue;
    }
    const std::vector<std::string> parts = split(override_text.substr(0, equals));
    YamlNode* node = &tree;
    for (const std::string& part : parts) {
      node = descend(*node, part, "command line", problems);
      if (node == nullptr) break;
    }
    if (node == nullptr) continue;
    *node = parse_value(override_text.substr(equals + 1), find_key(table_path(parts)),
                        "command line", problems);
  }
}

}  // namespace tributary::config
