#pragma once

#include <string>
#include <vector>

#include "schedule/deal_media.h"
#include "simulate/simulate.h"

namespace tributary::simulate {

/// The microbatches of a trainer's run: [steps][replicas][microbatches].
using RecordedSteps = std::vector<std::vector<std::vector<cost::MicrobatchShape>>>;

/// The images and clips of a run's steps, as schedule::list_media gives them: [steps][rounds].
using RecordedMedia = std::vector<std::vector<schedule::MediaRound>>;

/// Reads what the leading rank of each replica wrote into the directory of a run, without the first
/// `skip` steps.
///
/// errors: Fault::kInput naming file, line and key; replicas with different steps
[[nodiscard]] RecordedSteps read_recorded_steps(const std::string& run, std::int64_t skip);

/// Reads the media of the same steps; empty where the run recorded none, because all its encoders
/// are inline or because it is older.
///
/// errors: Fault::kInput naming file and line
[[nodiscard]] RecordedMedia read_recorded_media(const std::string& run, std::int64_t skip);

/// Simulates each recorded step with its own microbatches, whatever their number; shows the median.
/// Encoders with meshes of their own have the items that the trainer dealt to them; without
/// recorded media they have equal parts.
///
/// errors: as simulate; Fault::kInput when the backbone has another number of replicas
[[nodiscard]] Simulation simulate_recorded(const config::Plan& plan, const cost::StageCosts& costs,
                                           const config::Cluster& cluster,
                                           const SimulationOptions& options,
                                           const RecordedSteps& recorded,
                                           const RecordedMedia& media = {});

}  // namespace tributary::simulate
