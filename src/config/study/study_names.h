#pragma once

#include <vector>

#include "config/reading/artifact_object.h"
#include "config/study/study.h"

namespace tributary::config {

/// Checks that settings have different names, and that figures and orders name existing ones.
void check_settings(const ArtifactObject& root, const Study& study, Problems& problems);

/// Checks that the methods that a study lists are `known` (when that is not empty), and that those
/// it names elsewhere are among the methods that it runs.
void check_methods(const ArtifactObject& root, const Study& study,
                   const std::vector<StudyMethod>& known, Problems& problems);

}  // namespace tributary::config
