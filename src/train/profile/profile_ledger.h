#pragma once

#include <string>

#include "config/artifact/profile.h"

namespace tributary::train {

/// What a profile was measured on: measurements on anything else do not belong in it.
struct ProfileIdentity {
  std::string model;  // name and digest of its config.json
  std::string device;
  std::string libraries;
  std::string adapter = {};  // config::adapter_key
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
/// Puts attention into the table with the key of `like`; it replaces that at the same lengths in as
/// many tokens. Returns false where there is no such table.
[[nodiscard]] bool add_attention(config::Profile& profile, const config::ProfileTable& like,
                                 const config::MeasuredAttention& point);
/// Whether a table with the tp, ranks and threads of `like` has attention apart.
[[nodiscard]] bool has_attention(const config::Profile& profile, const config::ProfileTable& like);
/// Removes the layers and passes of each tp, number of ranks and of threads at which blocks were
/// measured with their attention: they are to be measured again. Returns whether there were any.
[[nodiscard]] bool drop_joint_attention(config::Profile& profile);

void add_collective(config::Profile& profile, config::CollectiveOp op,
                    const config::MeasuredCollective& point);

/// Sets the noise from the spread of all points.
void summarise_noise(config::Profile& profile);

/// One line each, for a person.
[[nodiscard]] std::string describe(const config::MeasuredPass& pass);
[[nodiscard]] std::string describe(const config::MeasuredStep& step);
[[nodiscard]] std::string describe_noise(const config::Profile& profile);

}  // namespace tributary::train
