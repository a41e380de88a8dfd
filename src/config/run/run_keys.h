#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "config/run/run_config.h"

namespace tributary::config {

/// A value as the file holds it; enumerations are texts.
using KeyValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// kDegree: a whole number, or `auto`. kRanks: a text as `2-4,8`, or an empty one.
enum class KeyType { kFlag, kWhole, kDegree, kNumber, kText, kTexts, kRanks };

/// Numbers from `min` to `max`. With `above`, `min` itself is not allowed; with `below`,
/// `max` itself is not.
struct KeyRange {
  double min = 0;
  double max = 0;
  bool above = false;
  bool below = false;
};

/// One line of the table that reads, checks, writes and documents the configuration.
struct Key {
  std::string path;  // `data.sources[].weight` is the key of every item of data.sources
  KeyType type;
  std::string unit;                  // empty: none
  KeyRange range;                    // of kWhole, kDegree and kNumber
  std::vector<std::string> choices;  // of kText and kTexts; empty: any text
  bool required;
  std::string meaning;
  bool takes_every;  // a choice may end with `/n`: of every nth layer
  std::function<KeyValue(const RunConfig& config, std::size_t item)> get;
  std::function<void(RunConfig& config, std::size_t item, const KeyValue& value)> set;
};

/// A key that holds a list of maps.
struct KeyList {
  std::string path;
  bool required;  // at least one item
  std::string meaning;
  std::size_t (*size)(const RunConfig& config);
  void (*resize)(RunConfig& config, std::size_t items);
};

/// All keys, in the order in which files are written.
[[nodiscard]] const std::vector<Key>& all_keys();
[[nodiscard]] const std::vector<KeyList>& all_key_lists();

/// The lines of the section `adapter`; part of all_keys().
[[nodiscard]] std::vector<Key> adapter_keys();
/// The lines of the section `objective`; part of all_keys().
[[nodiscard]] std::vector<Key> objective_keys();
/// The lines of the section `data`; part of all_keys().
[[nodiscard]] std::vector<Key> data_keys();
/// The lines of the section `parallel`; part of all_keys().
[[nodiscard]] std::vector<Key> parallel_keys();
/// The lines of the sections `parallel.<module>`, one section for each encoder; part of all_keys().
[[nodiscard]] std::vector<Key> module_keys();
/// The lines of the section `pool`; part of all_keys().
[[nodiscard]] std::vector<Key> pool_keys();
/// The lines of the section `drill`; part of all_keys().
[[nodiscard]] std::vector<Key> drill_keys();

/// The key or list with this path, or null. Item numbers are written `[]`.
[[nodiscard]] const Key* find_key(const std::string& path);
[[nodiscard]] const KeyList* find_key_list(const std::string& path);

/// Describes the allowed values: `a whole number from 1 to 64`, `one of none, skip`.
[[nodiscard]] std::string describe_allowed(const Key& key);

/// A value as YAML text that reads back to the same value.
[[nodiscard]] std::string write_value(const KeyValue& value);

}  // namespace tributary::config
