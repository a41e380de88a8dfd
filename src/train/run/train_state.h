#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/json.h"
#include "data/loader/loader.h"

namespace tributary::train {

/// What a resumed run must know besides parameters and moments.
struct TrainState {
  std::int64_t step = 0;  // global batches consumed, skipped steps included
  std::int64_t optimizer_steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t skips_in_a_row = 0;
  std::optional<double> best_score;           // of the validations so far
  std::int64_t validations_without_gain = 0;  // in a row, with validation.stop_after
  std::int64_t tokens = 0;
  std::int64_t target_tokens = 0;
  double train_seconds = 0;  // only in steps, over all parts of the run
  double wall_seconds = 0;   // with validation and checkpoints
  data::LoaderState loader;
  std::string correction;  // of predicted costs, as JSON; empty where they are not corrected
};

[[nodiscard]] Json to_json(const TrainState& state);
/// errors: Fault::kInput with ExitCode::kCheckpointRefused naming `where`
[[nodiscard]] TrainState train_state_from_json(const Json& json, const std::string& where);

}  // namespace tributary::train
