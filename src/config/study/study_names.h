#pragma once

#include <vector>

#include "config/reading/artifact_object.h"
#include "config/study/study.h"

namespace tributary::config {

/// Settings that figures and orders name must be there, each once.
void check_settings(const ArtifactObject& root, const Study& study, Problems& problems);

/// Methods that a study lists must be `known`, where any are; those that it names elsewhere must be
/// among the methods that it runs.
void check_methods(const ArtifactObject& root, const Study& study,
                   const std::vector<StudyMethod>& known, Problems& problems);

}  // namespace tributary::config
