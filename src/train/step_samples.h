#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sample_shape.h"
#include "data/sample.h"
#include "schedule/correct_costs/batch_correction.h"
#include "schedule/pack.h"
#include "train/metrics/step_metrics.h"
#include "train/start/session.h"

namespace tributary::train {

/// What this rank's replica trains on in a step.
struct StepSamples {
  std::vector<data::EncodedSample> samples;
  std::int64_t left_out = 0;  // records drawn for them that are too long
  std::string refusal;        // not empty: the data of this rank are too bad to go on
  data::LoaderState before;   // where the loader stood
};

/// Takes the samples of the next step. Data beyond a limit are a refusal, which ends the step on
/// all ranks (BatchResult::refused).
///
/// errors: as Loader::next_batch, but for ExitCode::kDataLimit
[[nodiscard]] StepSamples take_samples(const Session& session);

/// Ends a step that some rank refused: every loader goes back to where it stood, so that a
/// checkpoint can be saved. Returns the refusal of the first rank that has one.
///
/// collective: over all ranks
[[nodiscard]] std::string give_back(const Session& session, const StepSamples& taken);

/// How the own replica passes its samples.
struct OwnPart {
  schedule::PackedBins microbatches;  // bins of places among its samples
  std::int64_t plan = 0;              // fingerprint
  BalanceMetrics balance;
  std::optional<schedule::PredictedBatch> predicted;  // where costs are corrected
};

/// Takes the plan made ahead, where samples are balanced. A sample in place of a bad one may have
/// another shape than the plan knew: then the replica packs what it has got.
[[nodiscard]] OwnPart take_part(const Session& session, std::int64_t first_index,
                                const std::vector<SampleShape>& shapes);

}  // namespace tributary::train
