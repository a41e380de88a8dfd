#include <algorithm>

#include "config/run/read_run_config.h"
#include "config/run/run_keys.h"
#include "core/text.h"

namespace tributary::config {
namespace {

/// `data.sources[].weight`, item 2 -> `data.sources.2.weight`
std::string path_of(const Key& key, std::size_t item) {
  const std::size_t list = key.path.find("[]");
  if (list == std::string::npos) return key.path;
  return str(key.path.substr(0, list), ".", item, key.path.substr(list + 2));
}

}  // namespace

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
