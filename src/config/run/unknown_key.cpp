#include "config/run/unknown_key.h"

#include <algorithm>

#include "config/run/peer_names.h"
#include "config/run/run_keys.h"
#include "core/error.h"
#include "core/nearest_name.h"

namespace tributary::config {
namespace {

/// The known key nearest to an unknown one: a sibling, else, for long names, a key of nearly that
/// name in another section. Short names are near too many keys: `lr` is two edits from `dir`, and
/// several sections have a `name`.
std::string nearest_key(const std::string& prefix, const std::string& shown_prefix,
                        const std::string& name) {
  constexpr std::size_t kLongName = 8;
  const std::string sibling = nearest_name(name, names_below(prefix));
  if (!sibling.empty()) return shown_prefix + sibling;
  if (!prefix.empty() && name.size() < kLongName) return "";
  std::vector<std::string> leaves;
  for (const Key& key : all_keys()) leaves.push_back(key.path.substr(key.path.rfind('.') + 1));
  const std::string leaf = nearest_name(name, leaves, name.size() / 4);
  const auto at = std::find(leaves.begin(), leaves.end(), leaf);
  return leaf.empty() ? "" : all_keys()[static_cast<std::size_t>(at - leaves.begin())].path;
}

}  // namespace

std::vector<std::string> names_below(const std::string& prefix) {
  std::vector<std::string> names;
  for (const Key& key : all_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    std::string name = key.path.substr(prefix.size());
    name = name.substr(0, name.find_first_of(".["));
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

std::string advice_for_unknown_key(const std::string& path, const std::string& shown,
                                   const std::string& name) {
  const std::string advice = advice_for_peer_name(shown + name);
  if (!advice.empty()) return "write " + advice;
  // data.sources[0] of a command line
  if (const std::size_t bracket = name.find('['); bracket != std::string::npos && bracket > 0)
    return str("list items go by number: ", shown, name.substr(0, bracket), ".0");
  const std::string nearest = nearest_key(path, shown, name);
  if (!nearest.empty()) return str("did you mean ", nearest, "?");
  std::string siblings;
  for (const std::string& each : names_below(path)) siblings += " " + each;
  return str(path.empty() ? "the sections are" : "the keys here are", siblings,
             "; docs/configuration.md explains them");
}

}  // namespace tributary::config
