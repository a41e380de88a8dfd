#include "config/read_run_config.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "config/run/run_tree.h"

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
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  TRIB_REQUIRE(file.is_open() && !file.bad(), .what = "config: file cannot be read", .where = path,
               .found = std::strerror(errno),
               .expected = "a YAML file, for example configs/demo.yaml");
  return parse_run_config(text, path, overrides);
}

std::string run_directory(const RunConfig& config) {
  return config.run.dir.empty() ? "runs/" + config.run.name : config.run.dir;
}

}  // namespace tributary::config
