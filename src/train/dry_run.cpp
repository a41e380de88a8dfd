#include "train/dry_run.h"

#include <optional>
#include <ostream>
#include <set>

#include "config/family/model_config.h"
#include "config/family/tokenizer_files.h"
#include "config/plan/plan_of_run.h"
#include "config/run/mesh_shape.h"
#include "core/error.h"
#include "core/log.h"
#include "data/loader/encode_sample.h"
#include "data/text/tokenizer.h"
#include "train/start/media_kernels.h"
#include "train/start/session.h"
#include "train/start/start_block.h"

namespace tributary::train {
namespace {

/// One rank of each stage of each module: others keep as much.
std::set<std::int64_t> ranks_to_count(const config::Plan& plan) {
  std::set<std::int64_t> ranks;
  for (const config::ModulePlan& module : plan.modules) {
    std::set<std::int64_t> stages;
    for (std::size_t place = 0; place < module.ranks.size(); ++place) {
      const auto at = config::coordinates_of(module.mesh, static_cast<std::int64_t>(place));
      if (stages.insert(at.pp).second) ranks.insert(module.ranks[place]);
    }
  }
  return ranks;
}

struct Counted {
  Ranks ranks;
  MemoryNeed need;
};

/// The rank that needs most.
Counted count_most(const TrainRequest& request, const config::ModelConfig& model,
                   std::int64_t world) {
  const config::Plan plan = config::plan_of_run(request.config, world, model);
  std::optional<Counted> max;
  for (const std::int64_t rank : ranks_to_count(config::plan_of_ranks(plan))) {
    Counted counted{.ranks = imagine_rank(request.config, model, rank, world), .need = {}};
    counted.need =
        count_memory(request.config.model, model,
                     lay_out(request.config, plan, counted.ranks.pipeline, counted.ranks.meshes),
                     request.config.optimizer, request.config.objective.compares_pairs());
    counted.need.activations = request.estimate_activations(counted.ranks.mesh().shape());
    if (!max || counted.need.total() > max->need.total()) max.emplace(std::move(counted));
  }
  return std::move(*max);
}

MemoryPlace place_of(const MemoryNeed& need, const DryRun& job, const config::RunConfig& config) {
  if (job.memory.count == 0) return {};
  const bool on_cpu = config.run.device == "cpu";
  return {.needed = on_cpu ? need.total() : need.total() - need.on_host,
          .left = job.memory,
          .name = "--memory"};
}

std::optional<data::DataSize> print_records(const config::RunConfig& config,
                                            const config::ModelConfig& model, std::ostream& out) {
  if (config::tokenizer_files(config.model.path).empty()) {
    out << "data       not read: " << config.model.path << "/tokenizer.json is not there\n";
    return std::nullopt;
  }
  const data::Tokenizer tokenizer = data::Tokenizer::load(config.model.path);
  const auto encoder = data::make_encoder(config, model, tokenizer, resize_picture, frame_samples);
  data::Loader loader(
      {.data = config.data, .batch_samples = config.batch.global_samples, .quarantine_path = {}},
      *encoder);
  const data::HeldOut held_out(config.data, *encoder);
  std::int64_t held = 0;
  for (std::size_t i = 0; i < config.data.sources.size(); ++i)
    held += held_out.size(static_cast<int>(i));
  config::RunConfig counted = config;
  if (config.run.epochs > 0) counted.run.steps = steps_of_epochs(config, loader.records());
  const data::DataSize size = size_data(counted, loader.records(), held, loader.look());
  print_data(out, counted, size);
  return size;
}

}  // namespace

ImaginedRun look_at_run(const TrainRequest& request, const DryRun& job, std::ostream& out) {
  const config::ModelConfig model = config::read_model_config(request.config.model.path);
  const Counted fullest = count_most(request, model, job.ranks);
  const MemoryPlace place = place_of(fullest.need, job, request.config);
  print_start(out, request.config, fullest.ranks, fullest.need, place);
  const std::optional<data::DataSize> data = print_records(request.config, model, out);
  if (ranks_to_count(config::plan_of_ranks(fullest.ranks.plan)).size() > 1)
    out << "rank       " << fullest.ranks.launch.rank << " needs the most memory of all\n";
  out << "dry run: nothing was started" << std::endl;
  require_memory(fullest.need, place);
  if (const std::string shortage = describe_shortage(fullest.need, place); !shortage.empty())
    log_warning(shortage);
  return {.need = fullest.need, .data = data};
}

}  // namespace tributary::train
