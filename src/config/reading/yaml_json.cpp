#include "config/reading/yaml_json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/reading/yaml_tree.h"
#include "core/file/given_file.h"

namespace tributary::config {
namespace {

template <class Number>
bool read_number(const std::string& text, Number& number) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return stop == end && begin != end && error == std::errc();
}

Json to_scalar(const YamlNode& node) {
  if (node.quoted) return node.text;
  if (node.text == "true") return true;
  if (node.text == "false") return false;
  std::int64_t whole = 0;
  if (read_number(node.text, whole)) return whole;
  double number = 0;
  // JSON has no inf and nan: they stay texts, which every range check refuses.
  if (read_number(node.text, number) && std::isfinite(number)) return number;
  return node.text;
}

Json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNothing:
      return nullptr;
    case YamlNode::Kind::kScalar:
      return to_scalar(node);
    case YamlNode::Kind::kList: {
      Json list = Json::array();
      for (const YamlNode& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case YamlNode::Kind::kMap: {
      Json map = Json::object();
      for (const auto& [key, value] : node.entries) map[key] = to_json(value);
      return map;
    }
  }
  return nullptr;
}

}  // namespace

Json parse_yaml_as_json(std::string_view text, const std::string& where) {
  Problems problems;
  const YamlNode root = parse_yaml(text, where, problems);
  problems.raise_if_any(where);
  return to_json(root);
}

std::string read_artifact(const std::string& path, const std::string& expected) {
  return read_given_file(path, kAnySize,
                         {.what = "config: file cannot be read", .expected = expected});
}

}  // namespace tributary::config
