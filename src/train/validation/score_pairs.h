#pragma once

#include <vector>

#include "train/metrics/step_metrics.h"
#include "train/start/session.h"
#include "train/validation/held_out_rounds.h"

namespace tributary::train {

/// Adds losses and figures of the held-out pairs of a round, by the model and by the reference. A
/// replica without pairs runs an idle batch, to gather parameters with the others.
///
/// collective: over all ranks
void score_pairs(const Session& session, const RoundPart& part, std::vector<SourceLoss>& losses,
                 std::vector<PairSums>& sums);

}  // namespace tributary::train
