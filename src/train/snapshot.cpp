#include "train/snapshot.h"

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include <ATen/ATen.h>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint/unit_parts.h"
#include "train/checkpoint/watched_files.h"
#include "train/start/load_section.h"

namespace tributary::train {

CheckpointContent describe_snapshot(const Session& session, const TrainState& state) {
  CheckpointContent content;
  content.step = state.step;
  content.config = config::write_run_config(session.config);
  content.model_directory = std::filesystem::absolute(session.config.model.path).string();
  content.identity = session.identity;
  content.state = to_json(state).dump();
  content.model = list_parameters(*session.model);
  content.optimizer = session.optimizer->state();
  return content;
}

TrainState restore_snapshot(Session& session, const std::string& checkpoint,
                            std::span<const std::string> accepted) {
  const LoadSection loading(session.health);
  WatchedFiles files(real_file_system(), loading.on_progress());
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint, files);
  check_identity(facts.identity, session.identity, accepted);
  TrainState state = train_state_from_json(parse_json(facts.state, checkpoint), checkpoint);
  load_checkpoint(checkpoint, list_parameters(*session.model), session.optimizer->state(),
                  Verify::kTouched, files);
  session.optimizer->restore(state.optimizer_steps);
  data::LoaderState loader = state.loader;
  if (session.mesh->data_index() != 0)  // the first replica goes on with the counts of all
    loader.left_out.assign(loader.left_out.size(), 0);
  session.loader->restore(loader, accepted);
  TRIB_REQUIRE(session.arrival || loader.trained_ahead.empty(),
               .what = "checkpoint: run by arrival has trained on samples of later batches",
               .where = checkpoint,
               .found = str(loader.trained_ahead.size(), " samples, and pool.order data"),
               .expected = "pool.order arrival, as the run had it",
               .exit = ExitCode::kCheckpointRefused);
  if (session.planner && session.planner->correction() && !state.correction.empty())
    session.planner->correction()->restore(parse_json(state.correction, checkpoint), checkpoint);
  return state;
}

void check_finite(const Session& session, const std::string& source, bool is_allowed) {
  const LoadSection loading(session.health);
  const std::function<void()> on_progress = loading.on_progress();
  std::vector<NamedTensor> tensors = list_parameters(*session.model);
  for (NamedTensor& moment : session.optimizer->state()) tensors.push_back(std::move(moment));
  std::string first;
  std::int64_t more = -1;
  for (const NamedTensor& tensor : tensors) {
    if (on_progress) on_progress();
    const at::Tensor bad = at::logical_not(at::isfinite(tensor.value));
    const std::int64_t count = bad.sum().item<std::int64_t>();
    if (count == 0) continue;
    if (more++ < 0) first = str(tensor.name, ", ", count, " of ", tensor.value.numel(), " values");
  }
  if (more > 0) first += str(", and ", more, " more tensors");
  if (is_allowed && !first.empty())
    log_warning(
        str("train: values are not finite, as --allow-nonfinite lets pass: ", source, ": ", first));
  TRIB_REQUIRE(first.empty() || is_allowed, .what = "checkpoint: values are NaN or infinite",
               .where = source, .found = first, .expected = "finite weights and moments",
               .fix = "go on from an earlier checkpoint, or pass --allow-nonfinite",
               .exit = ExitCode::kCheckpointRefused);
}

}  // namespace tributary::train
