#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/requests/given_options.h"
#include "config/artifact/cluster.h"
#include "config/artifact/profile.h"
#include "cost/cost_source.h"

namespace tributary::app {

/// Costs that were measured, and the machine to take them for.
struct MeasuredMachine {
  config::Cluster cluster;
  std::shared_ptr<const cost::CostSource> costs;
};

/// The machine of a profile with so many ranks, each with so many compute threads; 0: an equal part
/// of a CPU's cores. Of a cluster that is named beside it come the devices, links and memory; the
/// profile then needs no messages.
///
/// errors: Fault::kInput naming what was not measured: steps of so many threads, messages
[[nodiscard]] MeasuredMachine measured_machine(const config::Profile& profile,
                                               const std::string& profile_name, std::int64_t ranks,
                                               std::int64_t threads,
                                               const std::optional<config::Cluster>& cluster,
                                               Caller caller);

/// Says of a profile whose points were measured with much noise how little it is worth, and what to
/// do; empty where it has at most 10 %.
[[nodiscard]] std::string note_on_noise(const config::Profile& profile,
                                        const std::string& profile_name);

/// Refuses a profile of another model than that of a directory with a config.json; other kinds of
/// model files have nothing to tell them by.
///
/// errors: Fault::kInput naming the profile's key
void check_profile_model(const config::Profile& profile, const std::string& profile_name,
                         const std::string& model);

}  // namespace tributary::app
