#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/requests/given_options.h"
#include "config/artifact/cluster.h"
#include "config/artifact/profile.h"
#include "cost/cost_source.h"

namespace tributary::app {

/// Measured costs, and the machine that a plan or a simulation assumes with them.
struct MeasuredMachine {
  config::Cluster cluster;
  std::shared_ptr<const cost::CostSource> costs;
};

/// The machine of a profile with `ranks` ranks of `threads` compute threads each; 0 threads: an
/// equal part of a CPU's cores. A cluster gives the number of devices, the links and the memory in
/// place of the profile, which then needs no messages.
///
/// errors: Fault::kInput naming what was not measured: steps on `threads` threads, messages
[[nodiscard]] MeasuredMachine measured_machine(const config::Profile& profile,
                                               const std::string& profile_name, std::int64_t ranks,
                                               std::int64_t threads,
                                               const std::optional<config::Cluster>& cluster,
                                               Caller caller);

/// A warning that a profile is of little use, and what to do about it, where its points were
/// measured with more than 10 % noise; else empty.
[[nodiscard]] std::string note_on_noise(const config::Profile& profile,
                                        const std::string& profile_name);

/// Refuses a profile whose digest is not that of the model's config.json. A profile without a
/// digest and a model without a config.json are not checked.
///
/// errors: Fault::kInput naming the profile's key
void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model);

}  // namespace tributary::app
