#include <cstdlib>

#include "config/run/run_tree.h"

namespace tributary::config {

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
  expand("parallel.plan", config.parallel.plan);
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    SourceSection& source = config.data.sources[i];
    const std::string key = str("data.sources.", i, ".");
    expand(key + "path", source.path);
    expand(key + "held_out", source.held_out);
    expand(key + "images", source.images);
  }
}

}  // namespace tributary::config
