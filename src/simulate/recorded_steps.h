#pragma once

#include <string>

#include "simulate/simulate.h"

namespace tributary::simulate {

/// The microbatches of a trainer's run: [steps][replicas][microbatches].
using RecordedSteps = std::vector<std::vector<std::vector<cost::MicrobatchShape>>>;

/// Reads what the leading rank of each replica wrote into the directory of a run, without the first
/// `skip` steps.
///
/// errors: Fault::kInput naming file, line and key; replicas with different steps
[[nodiscard]] RecordedSteps read_recorded_steps(const std::string& run, std::int64_t skip);

/// Simulates each recorded step with its own microbatches, whatever their number; shows the median.
/// Encoders with other replicas than the backbone have equal parts of its media.
///
/// errors: as simulate; Fault::kInput when the backbone has another number of replicas
[[nodiscard]] Simulation simulate_recorded(const config::Plan& plan, const cost::StageCosts& costs,
                                           const config::Cluster& cluster,
                                           const SimulationOptions& options,
                                           const RecordedSteps& recorded);

}  // namespace tributary::simulate
