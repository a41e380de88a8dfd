#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/reading/artifact_object.h"
#include "config/study/study.h"

namespace tributary::config {

/// A model of a study: its modules, and in a graph that shares devices the tokens of a sample that
/// each of them sees.
struct StudyModel {
  ModuleGraph graph;
  std::vector<std::int64_t> module_tokens;
};

/// The `models` of a study by name: a path of a directory or module graph, the keys of a
/// config.json, or a list of modules.
[[nodiscard]] std::map<std::string, StudyModel> read_study_models(ArtifactObject& root,
                                                                  const std::string& where,
                                                                  const std::string& folder);

/// A sample mixture: the word `reference`, or classes.
[[nodiscard]] StudyData read_study_data(ArtifactObject& setting);

}  // namespace tributary::config
