#pragma once

#include <string>

#include "config/profile.h"

namespace tributary::app {

/// Refuses a profile of another model than that of a directory with a config.json; other kinds of
/// model files have nothing to tell them by.
///
/// errors: Fault::kInput naming the profile's key
void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model);

}  // namespace tributary::app
