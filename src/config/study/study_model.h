#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/reading/artifact_object.h"
#include "config/study/study.h"

namespace tributary::config {

/// A model of a study: its modules and, for studies of sharing, how many tokens of a sample each of
/// them sees.
struct StudyModel {
  ModuleGraph graph;
  std::vector<std::int64_t> module_tokens;
};

/// Reads the `models` of a study by name. A model is a path of a directory or module graph, the
/// keys of a config.json, or a list of modules.
[[nodiscard]] std::map<std::string, StudyModel> read_study_models(ArtifactObject& root,
                                                                  const std::string& where,
                                                                  const std::string& folder);

/// Reads a sample mixture: the word `reference`, or classes.
[[nodiscard]] StudyData read_study_data(ArtifactObject& setting);

}  // namespace tributary::config
