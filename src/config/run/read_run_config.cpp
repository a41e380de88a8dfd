#include "config/run/read_run_config.h"

#include <cstdlib>

#include "config/run/run_tree.h"
#include "core/file/given_file.h"

namespace tributary::config {
namespace {

/// Puts $HOME in place of a `~` that begins a path.
void expand_home(RunConfig& config, const KeyPlaces& places, Problems& problems) {
  const char* home = std::getenv("HOME");
  const auto expand = [&](const std::string& key, std::string& path) {
    if (path.size() < 2 || path[0] != '~') return;
    const bool is_own = path[1] == '/';
    if (is_own && home != nullptr && *home != '\0') {
      path = home + path.substr(1);
      return;
    }
    const auto place = places.find(key);
    problems.add({.what = "config: path begins with ~ and cannot be expanded",
                  .where = place == places.end() ? key : str(place->second, " ", key),
                  .found = escaped(path),
                  .expected = is_own ? "HOME in the environment" : "~/ for one's own directory",
                  .fix = "write the path out"});
  };
  expand("run.dir", config.run.dir);
  expand("model.path", config.model.path);
  expand("adapter.path", config.model.adapter.path);
  expand("parallel.plan", config.parallel.plan);
  expand("batch.costs", config.batch.costs);
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    SourceSection& source = config.data.sources[i];
    const std::string key = str("data.sources.", i, ".");
    expand(key + "path", source.path);
    expand(key + "held_out", source.held_out);
    expand(key + "images", source.images);
    for (std::string& root : source.roots) expand(key + "roots", root);
  }
}

}  // namespace

RunConfig parse_run_config(std::string_view text, const std::string& where,
                           std::span<const std::string> overrides) {
  Problems problems;
  YamlNode tree = parse_yaml(text, where, problems);
  apply_overrides(overrides, tree, problems);
  RunConfig config;
  const KeyPlaces places = fill_run_config(tree, where, config, problems);
  expand_home(config, places, problems);
  check_combinations(config, places, problems);
  problems.raise_if_any(where);
  return config;
}

RunConfig read_run_config(const std::string& path, std::span<const std::string> overrides) {
  TRIB_REQUIRE(!path.ends_with(".jsonl"), .what = "config: a data set in place of a configuration",
               .where = path, .expected = "a YAML file that describes a run",
               .fix = str("copy configs/own_data.yaml, and set data.sources.0.path=", path));
  const std::string text =
      read_given_file(path, kMaxConfigBytes,
                      {.what = "config: file cannot be read",
                       .expected = "a YAML file, for example configs/demo.yaml"});
  return parse_run_config(text, path, overrides);
}

std::vector<std::string> list_idle_values(const RunConfig& config) {
  std::vector<std::string> idle;
  if (config.pool != PoolSection() && !config.parallel.has_encoders_beside())
    idle.emplace_back("the section pool means nothing: no module has placement flow");
  if (config.run.epochs > 0) return idle;  // the data will say how many steps there are
  const std::int64_t steps = config.run.steps;
  for (const SourceSection& source : config.data.sources)
    if (source.start_step >= steps)
      idle.push_back(str("source ", source.name, " never joins the mixture: start_step ",
                         source.start_step, ", run.steps ", steps));
  const ScheduleSection& schedule = config.schedule;
  if (schedule.warmup_steps > steps) {
    idle.push_back(str("the learning rate ends below its peak: schedule.warmup_steps ",
                       schedule.warmup_steps, ", run.steps ", steps));
  } else if (schedule.warmup_steps + schedule.decay_steps > steps) {
    idle.push_back(str("the learning rate falls from the end of the warm-up on: warmup_steps ",
                       schedule.warmup_steps, " + decay_steps ", schedule.decay_steps,
                       ", run.steps ", steps));
  }
  return idle;
}

std::string run_directory(const RunConfig& config) {
  return config.run.dir.empty() ? "runs/" + config.run.name : config.run.dir;
}

}  // namespace tributary::config
