#pragma once

#include <map>
#include <optional>
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

/// Reads a list of names; what is not one is refused as not `expected`.
[[nodiscard]] std::vector<std::string> read_names(ArtifactObject& json, const std::string& key,
                                                  const std::string& expected);

/// Reads how a setting runs on this machine; null where it does not say so.
[[nodiscard]] std::optional<StudyRun> read_study_run(ArtifactObject& setting,
                                                     const std::string& folder);

}  // namespace tributary::config
