#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/stopwatch.h"
#include "schedule/correct_costs/batch_correction.h"
#include "train/metrics/step_metrics.h"
#include "train/start/session.h"

namespace tributary::train {

/// A step before its first pass: the samples of this rank's replica, cut into microbatches.
struct TakenStep {
  Stopwatch watch;               // runs since the step began
  std::int64_t first_index = 0;  // of the global batch, in the order of the run
  std::vector<data::EncodedSample> samples;
  std::vector<SampleShape> shapes;    // of the samples
  std::int64_t left_out = 0;          // records drawn for them that are too long
  std::int64_t media_decoded = 0;     // by this rank for them
  std::string refusal;                // not empty: the data of this rank are too bad to go on
  data::LoaderState before;           // where the loader stood
  mesh::Traffic traffic;              // of the run until the first pass
  std::int64_t feature_bytes = 0;     // likewise, along the edges between modules
  schedule::PackedBins microbatches;  // bins of places among the samples
  std::int64_t plan = 0;              // fingerprint
  BalanceMetrics balance;
  std::optional<schedule::PredictedBatch> predicted;  // where costs are corrected
  StepMedia media;                                    // where encoders have ranks of their own
  DealtItems planned_items;  // the media as planned, where samples were replaced by others
  WaitSeconds waiting;
};

/// Draws the samples of a step and cuts them into microbatches. Data beyond a limit are a refusal,
/// which ends the step on all ranks (BatchResult::refused).
///
/// collective: over all ranks where samples are passed on
/// errors: as Loader::next_batch, but for ExitCode::kDataLimit
[[nodiscard]] TakenStep take_step(const Session& session);

/// Begins a step that was taken while the one before it was computed.
void begin_step(const Session& session, TakenStep& taken);

/// Whether the data of some rank refuse the step. collective: over all ranks
[[nodiscard]] bool is_refused(const Session& session, const TakenStep& taken);

/// Ends a step that some rank refused: every loader goes back to where it stood, so that a
/// checkpoint can be saved. Returns the refusal of the first rank that has one.
///
/// collective: over all ranks
[[nodiscard]] std::string give_back(const Session& session, const TakenStep& taken);

}  // namespace tributary::train
