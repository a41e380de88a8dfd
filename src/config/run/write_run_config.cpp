#include <algorithm>

#include "config/run/read_run_config.h"
#include "config/run/run_keys.h"
#include "core/text.h"

namespace tributary::config {
namespace {

/// `data.sources[].name` -> `data.sources[]`; `run.steps` -> `run`.
std::string section_of(const Key& key) { return key.path.substr(0, key.path.rfind('.')); }
std::string leaf_of(const Key& key) { return key.path.substr(key.path.rfind('.') + 1); }

std::string write_list(const KeyList& list, const RunConfig& config) {
  const std::string name = list.path.substr(list.path.rfind('.') + 1);
  if (list.size(config) == 0) return str("  ", name, ": []\n");
  std::string text = str("  ", name, ":\n");
  for (std::size_t item = 0; item < list.size(config); ++item) {
    const char* indent = "    - ";
    for (const Key& key : all_keys()) {
      if (section_of(key) != list.path + "[]") continue;
      text += str(indent, leaf_of(key), ": ", write_value(key.get(config, item)), "\n");
      indent = "      ";
    }
  }
  return text;
}

/// `data.sources[].weight`, item 2 -> `data.sources.2.weight`
std::string path_of(const Key& key, std::size_t item) {
  const std::size_t list = key.path.find("[]");
  if (list == std::string::npos) return key.path;
  return str(key.path.substr(0, list), ".", item, key.path.substr(list + 2));
}

}  // namespace

std::string write_run_config(const RunConfig& config) {
  std::string text =
      "# Every key of the run with its value; docs/configuration.md explains them.\n";
  std::string section;
  std::string list_written;
  for (const Key& key : all_keys()) {
    const std::string own = section_of(key);
    const std::string top = own.substr(0, own.find('.'));
    if (top != section.substr(0, section.find('.'))) text += top + ":\n";
    const bool is_nested = own != top && !own.ends_with("[]");
    if (is_nested && own != section) text += str("  ", own.substr(top.size() + 1), ":\n");
    section = own;
    if (!own.ends_with("[]")) {
      text +=
          str(is_nested ? "    " : "  ", leaf_of(key), ": ", write_value(key.get(config, 0)), "\n");
    } else if (own != list_written) {
      text += write_list(*find_key_list(own.substr(0, own.size() - 2)), config);
      list_written = own;
    }
  }
  return text;
}

std::string describe_changes(const RunConfig& before, const RunConfig& now) {
  std::string text;
  const auto add = [&](const std::string& path, const std::string& value, const std::string& was) {
    text += str(text.empty() ? "" : ", ", path, " ", value, " (was ", was, ")");
  };
  std::vector<std::string> resized;
  for (const KeyList& list : all_key_lists()) {
    if (list.size(before) == list.size(now)) continue;
    resized.push_back(list.path);
    add(list.path, str(list.size(now), " items"), str(list.size(before)));
  }
  for (const Key& key : all_keys()) {
    const std::size_t bracket = key.path.find("[]");
    const std::string list = key.path.substr(0, bracket);
    const bool is_item = bracket != std::string::npos;
    if (is_item && std::ranges::count(resized, list) > 0) continue;
    const std::size_t items = is_item ? find_key_list(list)->size(now) : 1;
    for (std::size_t item = 0; item < items; ++item)
      if (const KeyValue value = key.get(now, item), was = key.get(before, item); value != was)
        add(path_of(key, item), write_value(value), write_value(was));
  }
  return text;
}

}  // namespace tributary::config
