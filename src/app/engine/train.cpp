#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "app/engine/engine_verbs.h"
#include "app/launch/command_words.h"
#include "config/artifact/module_graph.h"
#include "config/family/known_modules.h"
#include "config/family/tokenizer_files.h"
#include "config/plan/plan.h"
#include "config/run/mesh_shape.h"
#include "config/run/read_run_config.h"
#include "config/run/run_config.h"
#include "config/run/stage_configs.h"
#include "core/error.h"
#include "core/launch_variables.h"
#include "core/text.h"
#include "core/units.h"
#include "cost/layer_cost.h"
#include "model/model.h"
#include "train/dry_run.h"
#include "train/start/session.h"

namespace tributary::app {
namespace {

bool lists(const std::vector<std::string>& modules, const std::string& name) {
  return std::ranges::find(modules, name) != modules.end();
}

/// How many patches of a picture become one token of the backbone.
std::int64_t patches_of_token(const config::ModuleGraph& graph) {
  std::int64_t merge = 1;
  for (const config::ModuleNode& node : graph.modules)
    for (const config::LayerRun& run : node.layers) merge = std::max(merge, run.shape.merge);
  return merge;
}

/// Bytes of logits, exponentials and gradients, which are computed in chunks of rows.
Bytes logits_of(const config::LayerShape& head, double tokens, std::int64_t tp) {
  const double all = tokens * static_cast<double>(cost::vocab_of_rank(head.vocab, tp));
  const double max = std::min(all, static_cast<double>(model::kMaxLogits));
  return {static_cast<std::int64_t>(3 * sizeof(float) * max)};
}

/// Bytes that equal layers from number `first` on keep for backward.
Bytes kept_of(const cost::LayerCost& cost, const config::ModelSection& section,
              const std::string& module, std::int64_t first, std::int64_t layers) {
  if (lists(section.offload, module)) return {};
  const config::ModuleRecompute repeats = config::recompute_of(section.recompute, module);
  const std::int64_t again = config::count_every(repeats.every, first, layers);
  return cost.kept(repeats.level) * again + cost.activation * (layers - again);
}

/// Estimates the bytes that a rank keeps for the backward pass of one full microbatch, by the
/// planner's cost model of each layer. With a vision tower all tokens count as pictures. A pipeline
/// stage keeps several microbatches of fewer layers, which comes to the same.
///
/// errors: as config::read_graph_of_model
Bytes estimate_activations(const config::RunConfig& config, const config::MeshShape& mesh) {
  // Only bytes are needed here, so the rates of the device do not matter.
  const config::DeviceModel device{.matrix_flops_per_s = 1e12, .memory_bytes_per_s = 1e11};
  const config::ModuleGraph graph = config::read_graph_of_model(config.model.path);
  const cost::LayerPlacement placement{
      .tp = mesh.tp, .sequence_parallel = mesh.tp > 1, .dtype = config.model.dtype};
  const double tokens = static_cast<double>(config.batch.capacity_tokens.count) /
                        static_cast<double>(mesh.cp * mesh.ulysses);
  const double patches = tokens * static_cast<double>(patches_of_token(graph));
  const auto trains = [&](const std::string& name) { return !lists(config.model.freeze, name); };
  const bool encoder_trains =
      std::ranges::any_of(graph.modules, [&](const config::ModuleNode& node) {
        return node.name != config::kBackboneModule && trains(node.name);
      });
  Bytes kept;
  for (const config::ModuleNode& node : graph.modules) {
    const bool is_backbone = node.name == config::kBackboneModule;
    const config::KnownModule* known = config::find_known_module(node.name);
    const bool is_projector = known != nullptr && known->role == config::ModuleRole::kProjector;
    const bool goes_back = trains(node.name) || ((is_backbone || is_projector) && encoder_trains);
    if (!goes_back) continue;
    std::int64_t first = 0;
    for (const config::LayerRun& run : node.layers) {
      if (run.shape.kind == config::LayerKind::kHead) {
        kept += logits_of(run.shape, tokens, mesh.tp);
        continue;
      }
      const cost::LayerCost cost =
          cost::layer_cost(device, run.shape, {.tokens = is_backbone ? tokens : patches}, placement,
                           {.trains = trains(node.name), .needs_input_grad = true});
      kept += kept_of(cost, config.model, node.name, first, run.layers);
      if (run.shape.kind == config::LayerKind::kBlock) first += run.layers;
    }
  }
  return kept;
}

/// Whether `launch --encoders` may have added a key, which it does again.
bool is_of_launcher(const std::string& change) {
  return change.starts_with("pool.encoders=") || change.starts_with("pool.min_encoders=") ||
         change.starts_with("pool.max_encoders=");
}

std::string command_of(const TrainOptions& options) {
  std::string command = options.program + " train " + shell_word(options.config);
  const bool is_launched = std::getenv(kCommandVariable) != nullptr;
  for (const std::string& change : options.overrides)
    if (!is_launched || !is_of_launcher(change)) command += " " + shell_word(change);
  return command;
}

std::string describe_resume(const TrainOptions& options) {
  std::string text;
  if (!options.resume.empty()) text += " --resume " + shell_word(options.resume);
  if (!options.fallback.empty()) text += " --fallback " + shell_word(options.fallback);
  for (const std::string& key : options.accepted_changes)
    text += " --accept-change " + shell_word(key);
  if (options.allow_nonfinite) text += " --allow-nonfinite";
  return text;
}

train::DryRun job_of(const TrainOptions& options) {
  TRIB_REQUIRE(options.dry_ranks >= 1 && options.dry_ranks <= 65536, .what = "app: number of ranks",
               .where = "--ranks", .found = str(options.dry_ranks), .expected = "1 to 65536");
  TRIB_REQUIRE(options.dry_memory_gib >= 0, .what = "app: memory of a rank", .where = "--memory",
               .found = str(options.dry_memory_gib), .expected = "above 0, in GiB");
  constexpr double kGib = 1 << 30;
  return {.ranks = options.dry_ranks,
          .memory = {static_cast<std::int64_t>(options.dry_memory_gib * kGib)}};
}

train::TrainRequest request_of(const config::RunConfig& config, const TrainOptions& options) {
  const std::string command = command_of(options);
  return {.config = config,
          .resume = options.resume,
          .fall_back = !options.fallback.empty(),
          .accepted_changes = options.accepted_changes,
          .allow_nonfinite = options.allow_nonfinite,
          .command = command + describe_resume(options),
          .resume_command = command + " --resume auto",
          .estimate_activations = [config](const config::MeshShape& mesh) {
            return estimate_activations(config, mesh);
          }};
}

/// Whether a dry run looks at a model of which only config.json is there.
bool lacks_tokenizer(const config::RunConfig& config, const TrainOptions& options) {
  return options.dry_run && config::tokenizer_files(config.model.path).empty();
}

ImaginedRun describe(const train::ImaginedRun& run) {
  return {.parameters = run.need.count_parameters(),
          .trained = run.need.count_trained(),
          .kept = run.need.total(),
          .kept_on_host = run.need.on_host,
          .activations = run.need.activations,
          .data = run.data};
}

}  // namespace

RankOutcome run_train(const TrainOptions& options) {
  TRIB_REQUIRE(options.fallback.empty() || options.fallback == "previous",
               .what = "train: no such fallback", .where = "--fallback",
               .found = escaped(options.fallback), .expected = "previous");
  std::vector<train::TrainRequest> stages;
  for (const config::RunConfig& each : config::stage_configs(options.config, options.overrides)) {
    if (!lacks_tokenizer(each, options)) config::check_stage(each, stages.empty());
    const config::RunConfig config = config::apply_plan(train::resolve_adapter(each));
    stages.push_back(request_of(config, options));
  }
  if (options.dry_run) {
    RankOutcome outcome;
    for (const train::TrainRequest& stage : stages)
      outcome.imagined.push_back(describe(train::look_at_run(stage, job_of(options), std::cout)));
    return outcome;
  }
  const train::TrainEnd end = train::train(stages, std::cout);
  return {.code = end.code, .leads = end.leads};
}

}  // namespace tributary::app
