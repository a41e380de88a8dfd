#pragma once

#include <string>

#include "config/artifact/profile.h"

namespace tributary::config {

/// Refuses a profile whose layers had other adapters than `adapter` says, as adapter_key gives it.
///
/// errors: Fault::kInput naming the profile's key
void check_profile_adapter(const Profile& profile, const std::string& adapter,
                           const std::string& where);

}  // namespace tributary::config
