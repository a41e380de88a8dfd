#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run/run_config.h"

namespace tributary::config {

/// Reads the YAML file that describes a run and checks it whole: syntax, keys, types, ranges and
/// combinations. An override is `key.path=value` as on the command line, the value written as in
/// YAML; list items go by number: `data.sources.0.weight=2`. Relative paths stay as they are and
/// mean the current directory; a `~` that begins a path is replaced by $HOME.
///
/// errors: Fault::kInput that lists every problem of the file with its line, key path, what was
///         found and what was expected; for an unknown key the nearest known one
[[nodiscard]] RunConfig read_run_config(const std::string& path,
                                        std::span<const std::string> overrides = {});

/// The same on a text; `where` stands for the file name in messages.
[[nodiscard]] RunConfig parse_run_config(std::string_view text, const std::string& where,
                                         std::span<const std::string> overrides = {});

/// Values that a run of `run.steps` steps does not live to see, a sentence for each: sources that
/// join later, a warm-up that goes on. A shortened run has them, so they are no errors.
[[nodiscard]] std::vector<std::string> list_idle_values(const RunConfig& config);

/// Checks the machine around a configuration: the model directory and the data files can be read,
/// the run directory can be written or made. Reads no content.
///
/// errors: Fault::kInput that lists every path with its key
void check_surroundings(const RunConfig& config);

/// Writes the resolved configuration, every key with its value; parse_run_config reads it back to
/// an equal struct.
[[nodiscard]] std::string write_run_config(const RunConfig& config);

/// Names each key that has another value now: `run.steps 200 (was 100), ...`; empty: none. A list
/// of another length is named as a whole.
[[nodiscard]] std::string describe_changes(const RunConfig& before, const RunConfig& now);

/// Describes every key as Markdown: type, unit, default, allowed values, meaning. The content of
/// docs/configuration.md.
[[nodiscard]] std::string describe_keys();

/// The directory of the run: run.dir, or runs/<run.name> when that is empty.
[[nodiscard]] std::string run_directory(const RunConfig& config);

}  // namespace tributary::config
