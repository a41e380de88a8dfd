#pragma once

#include <string>

#include "config/artifact/profile.h"

namespace tributary::train {

/// What a profile was measured on: measurements on anything else do not belong in it.
struct ProfileIdentity {
  std::string model;  // name and digest of its config.json
  std::string device;
  std::string libraries;
  std::int64_t cores = 0;
};

/// Gives an empty profile its identity.
///
/// errors: Fault::kInput naming the first key in which the profile is of something else
void require_identity(config::Profile& profile, const ProfileIdentity& identity,
                      const std::string& where);

[[nodiscard]] bool has_pass(const config::Profile& profile, const config::MeasuredPass& pass);
[[nodiscard]] bool has_step(const config::Profile& profile, std::int64_t ranks,
                            std::int64_t threads);
[[nodiscard]] bool has_collective(const config::Profile& profile, config::CollectiveOp op,
                                  std::int64_t ranks, Bytes bytes);

/// Puts a point into the table with the key of `like`; it replaces a point of as many tokens.
void add_point(config::Profile& profile, const config::ProfileTable& like,
               const config::ProfilePoint& point);
void add_collective(config::Profile& profile, config::CollectiveOp op,
                    const config::MeasuredCollective& point);

/// Sets the noise from the spread of all points.
void summarise_noise(config::Profile& profile);

}  // namespace tributary::train
