#include "train/run/snapshot.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/read_run_config.h"
#include "core/text.h"

namespace tributary::train {
namespace {

std::vector<NamedTensor> list_parameters(const model::Model& model) {
  std::vector<NamedTensor> list;
  for (const auto& unit : model.units())
    for (const auto& parameter : unit->parameters())
      list.push_back({parameter->name, parameter->value.detach()});
  return list;
}

/// Names and shapes of all parameters, and which are trained: a moment belongs to each of these.
std::string describe_shape(const model::Model& model) {
  std::int64_t parameters = 0;
  std::int64_t elements = 0;
  std::int64_t trained = 0;
  for (const auto& unit : model.units()) {
    for (const auto& parameter : unit->parameters()) {
      ++parameters;
      elements += parameter->elements();
      if (unit->trainable()) trained += parameter->elements();
    }
  }
  return str(parameters, " tensors, ", elements, " elements, ", trained, " trained");
}

RunIdentity identity_of(const Session& session) {
  RunIdentity identity = describe_identity(session.config);
  identity["model.shape"] = describe_shape(*session.model);
  return identity;
}

}  // namespace

CheckpointContent describe_snapshot(const Session& session, const TrainState& state) {
  CheckpointContent content;
  content.step = state.step;
  content.config = config::write_run_config(session.config);
  content.model_directory = std::filesystem::absolute(session.config.model.path).string();
  content.identity = identity_of(session);
  content.state = to_json(state).dump();
  content.model = list_parameters(*session.model);
  content.optimizer = session.optimizer->state();
  return content;
}

TrainState restore_snapshot(Session& session, const std::string& checkpoint) {
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint);
  check_identity(facts.identity, identity_of(session));
  TrainState state = train_state_from_json(parse_json(facts.state, checkpoint), checkpoint);
  load_checkpoint(checkpoint, list_parameters(*session.model), session.optimizer->state());
  session.optimizer->restore(state.optimizer_steps);
  session.loader->restore(state.loader);
  return state;
}

}  // namespace tributary::train
