#include "config/read_run_config.h"

#include "config/run/run_tree.h"
#include "core/file/given_file.h"

namespace tributary::config {

RunConfig parse_run_config(std::string_view text, const std::string& where,
                           std::span<const std::string> overrides) {
  Problems problems;
  YamlNode tree = parse_yaml(text, where, problems);
  apply_overrides(overrides, tree, problems);
  RunConfig config;
  const KeyPlaces places = fill_run_config(tree, where, config, problems);
  check_combinations(config, places, problems);
  problems.raise_if_any(where);
  return config;
}

RunConfig read_run_config(const std::string& path, std::span<const std::string> overrides) {
  const std::string text =
      read_given_file(path, kMostConfigBytes,
                      {.what = "config: file cannot be read",
                       .expected = "a YAML file, for example configs/demo.yaml"});
  return parse_run_config(text, path, overrides);
}

std::string run_directory(const RunConfig& config) {
  return config.run.dir.empty() ? "runs/" + config.run.name : config.run.dir;
}

}  // namespace tributary::config
