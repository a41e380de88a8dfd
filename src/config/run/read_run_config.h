#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run/run_config.h"

namespace tributary::config {

/// Reads the YAML file that describes a run and checks it whole: syntax, keys, types, ranges and
/// combinations. An override is `key.path=value` as on the command line, with the value written as
/// in YAML; list items are numbered: `data.sources.0.weight=2`. Relative paths stay as they are and
/// start from the current directory; a `~` that begins a path is replaced by $HOME.
///
/// errors: Fault::kInput that lists every problem of the file with its line, key path, what was
///         found and what was expected; for an unknown key the nearest known one
[[nodiscard]] RunConfig read_run_config(const std::string& path,
                                        std::span<const std::string> overrides = {});

/// As read_run_config, from a text; messages use `where` as the file name.
[[nodiscard]] RunConfig parse_run_config(std::string_view text, const std::string& where,
                                         std::span<const std::string> overrides = {});

/// Lists, a sentence each, the values that have no effect within `run.steps` steps: sources that
/// join later, a warm-up that does not end. They are no errors, because a shortened run has them.
[[nodiscard]] std::vector<std::string> list_idle_values(const RunConfig& config);

/// Checks that the model directory and the data files of a configuration can be read, and that its
/// run directory can be written or made. Reads no content.
///
/// errors: Fault::kInput that lists every path with its key
void check_surroundings(const RunConfig& config);

/// Writes the resolved configuration, every key with its value; parse_run_config reads it back to
/// an equal struct.
[[nodiscard]] std::string write_run_config(const RunConfig& config);

/// Lists the keys whose value has changed: `run.steps 200 (was 100), ...`; empty when none has. A
/// list of another length is named as a whole.
[[nodiscard]] std::string describe_changes(const RunConfig& before, const RunConfig& now);

/// Describes every key as Markdown: type, unit, default, allowed values, meaning. The content of
/// docs/configuration.md.
[[nodiscard]] std::string describe_keys();

/// The directory of the run: run.dir, or runs/<run.name> when that is empty.
[[nodiscard]] std::string run_directory(const RunConfig& config);

}  // namespace tributary::config
