#include "train/start/ranks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "config/family/known_modules.h"
#include "config/plan/plan_of_run.h"
#include "config/run/mesh_shape.h"
#include "config/run/read_run_config.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/machine/cores.h"
#include "core/sha256.h"
#include "mesh/device.h"
#include "mesh/launch/interface.h"
#include "mesh/launch/store.h"
#include "parallel/unit_chain.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "train/start/agreement.h"
#include "train/start/guarded.h"
#include "train/start/session.h"

namespace tributary::train {

namespace {

std::function<void()> observer_of(Drill* drill) {
  if (drill == nullptr) return {};
  return [drill] { drill->on_collective(); };
}

mesh::WorldOptions world_options(const config::RunConfig& config, const Ranks& ranks) {
  const mesh::Launch& launch = ranks.launch;
  const bool is_local = launch.local_world == launch.world;
  return {.device = mesh::open_device(config.run.device, launch.local_rank),
          .is_through_host = config.parallel.collectives == config::Collectives::kHost,
          .timeout_seconds = config.parallel.collective_timeout_seconds,
          .interface = is_local ? "lo" : mesh::collective_interface(launch.master_address),
          .shares_memory = is_local,
          .on_collective = observer_of(ranks.drill.get())};
}

void warn_of_wide_tp(const Ranks& ranks) {
  const mesh::Launch& launch = ranks.launch;
  if (launch.rank != 0 || launch.local_world == launch.world) return;
  for (const config::ModulePlan& module : config::plan_of_ranks(ranks.plan).modules)
    if (launch.local_world % module.mesh.tp != 0)
      log_warning(str("mesh: tp = ", module.mesh.tp, " of ", module.name, " spans nodes of ",
                      launch.local_world,
                      " ranks each; every layer waits for the network between them"));
}

void set_plan(Ranks& ranks, config::Plan plan) {
  ranks.pipeline = schedule::pipeline_of(config::plan_of_ranks(plan));
  ranks.plan = std::move(plan);
}

/// Which pp coordinate of a module holds which virtual stage; null where it has only one.
std::shared_ptr<const parallel::StageMap> map_stages(const schedule::PipelineMap& map,
                                                     const config::ModulePlan& module) {
  if (module.stages.size() <= 1) return nullptr;
  const auto& modules = map.pipeline().modules;
  const auto index = static_cast<int>(
      std::ranges::find(modules, module.name, &schedule::PipelineModule::name) - modules.begin());
  auto stages = std::make_shared<parallel::StageMap>();
  stages->layers = module.stages;
  for (int stage = 0; stage < stages->size(); ++stage)
    stages->holders.push_back(map.position_of(index, stage).stage);
  return stages;
}

/// What a step that is a pipeline changes for a module.
struct Cut {
  bool is_cut = false;
  bool splits_backward = false;
};

parallel::Layout layout_of(const config::RunConfig& config, const mesh::Mesh& mesh, Cut cut) {
  const config::ParallelSection& section = config.parallel;
  parallel::Layout layout;
  layout.mesh = &mesh;
  layout.adapters = model::adapter_rules(config.model);
  layout.sequence_parallel = !mesh.tp().is_single();
  // A stage uses its layers in every microbatch, so it gathers and reduces them once a step.
  const bool releases = section.shard == config::Shard::kParameters &&
                        (section.release == config::Release::kAfterForward ||
                         (section.release == config::Release::kAuto && !cut.is_cut));
  const bool is_plain = mesh.world().is_single() && config.model.dtype == config::Dtype::kFloat32 &&
                        section.offload == config::Offload::kNone;
  if (is_plain) return layout;
  layout.chain = std::make_shared<parallel::UnitChain>(parallel::ChainOptions{
      .release = releases ? parallel::Release::kAfterForward : parallel::Release::kAfterStep,
      .prefetch = static_cast<int>(section.prefetch),
      .reduce_in_f32 = section.reduce_dtype == config::ReduceDtype::kFloat32,
      .reduce_once = cut.is_cut || section.shard == config::Shard::kOptimizer,
      .splits_backward = cut.splits_backward,
      .ulysses_async = section.ulysses_async,
      .keep_values_on_host = section.offload == config::Offload::kParameters,
      .keep_optimizer_on_host = section.offload != config::Offload::kNone});
  return layout;
}

}  // namespace

// Ranks that share cores are faster when each keeps to one: after a wait the system wakes two ranks
// on one core while another is free (docs/results/speed.md). With enough cores it spreads them well
// itself. Where this process may use only a part of the machine, the launcher may have shared it
// out.
std::vector<int> cores_to_use(const config::RunSection& run, const mesh::Launch& launch) {
  const std::vector<int>& usable = usable_cores();
  const bool has_machine = std::ssize(usable) == sysconf(_SC_NPROCESSORS_ONLN);
  const bool shares_cores =
      launch.local_world * compute_threads(run.threads, launch.local_world) > std::ssize(usable);
  const bool is_bound =
      run.bind == config::Bind::kCores ||
      (run.bind == config::Bind::kAuto && run.device == "cpu" && has_machine && shares_cores);
  if (!is_bound || launch.local_world == 1) return usable;
  return part_of_cores(usable, launch.local_rank, launch.local_world);
}

Ranks::Ranks() = default;
Ranks::~Ranks() = default;
Ranks::Ranks(Ranks&&) noexcept = default;

Ranks join_ranks(const config::RunConfig& config, const config::ModelConfig& model_config) {
  return join_stage(config, model_config, {});
}

Ranks join_stage(const config::RunConfig& config, const config::ModelConfig& model_config,
                 const c10::intrusive_ptr<c10d::Store>& store) {
  Ranks ranks;
  ranks.launch = mesh::read_launch();
  // Refuses a wrong one before the ranks meet.
  set_plan(ranks, config::plan_of_run(config, ranks.launch.world, model_config));
  if (config.drill.fault != config::DrillFault::kNone)
    ranks.drill = std::make_unique<Drill>(config.drill, ranks.launch);
  bind_to_cores(cores_to_use(config.run, ranks.launch));
  ranks.world = std::make_unique<mesh::World>();
  if (ranks.launch.world == 1) {
    ranks.meshes = open_meshes(ranks.plan, *ranks.world, model_config.backbone.kv_heads);
    return ranks;
  }
  const config::ParallelSection& times = config.parallel;
  if (store)  // each stage has keys of its own
    ranks.store = c10::make_intrusive<c10d::PrefixStore>("next", store);
  else
    ranks.store =
        mesh::connect_store(ranks.launch, {.timeout_seconds = times.bootstrap_timeout_seconds,
                                           .lost_after_seconds = times.lost_after_seconds});
  ranks.health = std::make_unique<mesh::Health>(
      ranks.launch, *ranks.store,
      mesh::HealthOptions{.heartbeat_seconds = times.heartbeat_seconds,
                          .lost_after_seconds = times.lost_after_seconds,
                          .bootstrap_seconds = times.bootstrap_timeout_seconds,
                          .setup_deadline_seconds = times.setup_deadline_seconds,
                          .step_deadline_seconds = times.step_deadline_seconds,
                          .checkpoint_deadline_seconds = times.checkpoint_deadline_seconds,
                          .run_directory = config::run_directory(config)});
  warn_of_wide_tp(ranks);
  // What fails from here on must not look like a lost rank to the others.
  run_for_all(ranks, [&] {
    require_one_configuration(ranks.launch, *ranks.store, config);
    ranks.world = std::make_unique<mesh::World>(ranks.launch.rank, ranks.launch.world, ranks.store,
                                                world_options(config, ranks));
    ranks.meshes = open_meshes(ranks.plan, *ranks.world, model_config.backbone.kv_heads);
  });
  return ranks;
}

void run_for_all(const Ranks& ranks, const std::function<void()>& part) {
  if (!ranks.health) return part();
  try {
    guarded(part);
  } catch (const Error& error) {
    ranks.health->report_failure(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    ranks.health->report_failure(str("bug: train: unexpected; found: ", escaped(error.what())),
                                 ExitCode::kBug);
  }
}

Ranks stay_alone(const config::RunConfig& config, const config::ModelConfig& model,
                 const mesh::Launch& launch) {
  config::RunConfig inline_on_one = config;
  inline_on_one.parallel = {};
  Ranks ranks;
  ranks.launch = launch;
  set_plan(ranks, config::plan_of_run(inline_on_one, /*world=*/1, model));
  return ranks;
}

Ranks imagine_rank(const config::RunConfig& config, const config::ModelConfig& model,
                   std::int64_t rank, std::int64_t world) {
  Ranks ranks;
  const int size = static_cast<int>(world);
  ranks.launch.rank = ranks.launch.local_rank = static_cast<int>(rank);
  ranks.launch.world = ranks.launch.local_world = size;
  set_plan(ranks, config::plan_of_run(config, world, model));
  ranks.world = world == 1 ? std::make_unique<mesh::World>()
                           : std::make_unique<mesh::World>(static_cast<int>(rank), size);
  if (world > 1) ranks.meshes = open_meshes(ranks.plan, *ranks.world, model.backbone.kv_heads);
  return ranks;
}

model::ModelLayout lay_out(const config::RunConfig& config, const config::Plan& plan,
                           const schedule::Pipeline& pipeline, const Meshes& meshes) {
  const schedule::PipelineMap map(pipeline);
  bool is_cut = pipeline.modules.size() > 1;
  for (const schedule::PipelineModule& module : pipeline.modules)
    is_cut = is_cut || module.virtual_stages() > 1;
  const auto lay_out_module = [&](const std::string& module, const mesh::Mesh& mesh) {
    const config::PipelineOrder order = plan.find(module)->schedule;
    const bool splits = is_cut && schedule::traits_of(order).splits_backward;
    parallel::Layout layout =
        layout_of(config, mesh, {.is_cut = is_cut, .splits_backward = splits});
    if (is_cut) layout.stages = map_stages(map, *plan.find(module));
    // Each rank has all of such a module and runs it by itself; only gradients are added up.
    const bool flows = plan.find(module)->placement == config::Placement::kFlow;
    if (flows && plan.find(module)->train == config::TrainMode::kFrozen) layout.chain = nullptr;
    if (flows && layout.chain) layout.chain->split_backward(false);
    return layout;
  };
  model::ModelLayout layouts(lay_out_module(std::string(config::kBackboneModule), meshes.backbone));
  for (const auto& [module, mesh] : meshes.encoders)
    layouts.encoders.emplace(module, lay_out_module(module, mesh));
  return layouts;
}

parallel::Layout lay_out_on(const mesh::Mesh& mesh, const config::RunConfig& config) {
  return layout_of(config, mesh, {});
}

data::LoaderState gather_loader_state(const Session& session, data::LoaderState own_state) {
  data::LoaderState state = std::move(own_state);
  const mesh::Mesh& mesh = *session.mesh;
  if (mesh.world().is_single()) return state;
  Json own = Json::object();
  if (mesh.leads_replica()) own = data::to_json(state);
  std::map<data::RecordId, std::string> quarantined;  // replicas may have met the same record
  std::vector<std::int64_t> left_out(state.left_out.size());
  for (const std::string& text : mesh.world().gather_text(own.dump())) {
    const Json json = parse_json(text, "state of a loader");
    if (json.empty()) continue;
    const data::LoaderState other = data::loader_state_from_json(json, "state of a loader");
    for (const auto& [id, code] : other.quarantined) quarantined.emplace(id, code);
    for (std::size_t i = 0; i < left_out.size(); ++i) left_out[i] += other.left_out[i];
  }
  state.quarantined.clear();
  for (const auto& [id, code] : quarantined) state.quarantined.push_back({id, code});
  state.left_out = std::move(left_out);
  return state;
}

}  // namespace tributary::train
