#pragma once

#include <map>
#include <span>
#include <string>

#include "config/reading/problems.h"
#include "config/reading/yaml_tree.h"
#include "config/run/run_config.h"

namespace tributary::config {

/// Where each key was set: key path, as the user writes it -> file and line.
using KeyPlaces = std::map<std::string, std::string>;

/// Puts `key.path=value` texts of the command line into the tree of the file; a later one replaces
/// an earlier one.
void apply_overrides(std::span<const std::string> overrides, YamlNode& tree, Problems& problems);

/// Fills the configuration from the tree by the table of keys. A key that is unknown, missing, of
/// the wrong type or out of range is a problem.
KeyPlaces fill_run_config(const YamlNode& tree, const std::string& file, RunConfig& config,
                          Problems& problems);

/// Checks the rules between keys.
void check_combinations(const RunConfig& config, const KeyPlaces& places, Problems& problems);

}  // namespace tributary::config
