#pragma once

#include <functional>
#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "config/family/model_config.h"
#include "config/run/run_config.h"
#include "data/loader/loader.h"
#include "mesh/health/health.h"
#include "mesh/launch/launch.h"
#include "mesh/mesh.h"
#include "parallel/layout.h"
#include "schedule/pipeline/pipeline.h"
#include "train/placement/meshes.h"
#include "train/start/drill.h"

namespace tributary::train {

struct Session;

/// The processes of a run, as this one sees them: alone unless a launcher says otherwise.
struct Ranks {
  Ranks();
  ~Ranks();
  Ranks(Ranks&&) noexcept;
  Ranks& operator=(Ranks&&) = delete;

  mesh::Launch launch;
  c10::intrusive_ptr<c10d::Store> store;  // before what uses it
  std::unique_ptr<mesh::Health> health;   // where there is more than one
  std::unique_ptr<Drill> drill;           // with drill.fault; outlives the world that tells it
  std::unique_ptr<mesh::World> world;
  config::Plan plan;
  schedule::Pipeline pipeline;  // of the plan; packing finds the number of microbatches
  Meshes meshes;

  /// The mesh of the backbone, whose replicas the global batch is dealt to.
  [[nodiscard]] const mesh::Mesh& mesh() const { return meshes.backbone; }
  [[nodiscard]] bool leads() const { return launch.rank == 0; }
};

/// A rank that meets no other one, of a job that `launch` describes: all modules lie on it,
/// whatever the section `parallel` says.
[[nodiscard]] Ranks stay_alone(const config::RunConfig& config, const config::ModelConfig& model,
                               const mesh::Launch& launch);

/// A rank of a job of `world` ranks on one machine that does not run: it has its place in the
/// meshes and meets nobody.
/// errors: as join_ranks, of the degrees and the plan
[[nodiscard]] Ranks imagine_rank(const config::RunConfig& config, const config::ModelConfig& model,
                                 std::int64_t rank, std::int64_t world);

/// The cores that a rank keeps to under `run.bind`; all where it is not bound.
[[nodiscard]] std::vector<int> cores_to_use(const config::RunSection& run,
                                            const mesh::Launch& launch);

/// Meets the other processes of the job on the meshes that the configuration names, and binds this
/// one to its cores as `run.bind` says.
///
/// collective: every process of the job
/// errors: Fault::kInput where degrees do not fit the number of processes or the model;
///         Fault::kResource when a process does not come in time, naming it
[[nodiscard]] Ranks join_ranks(const config::RunConfig& config,
                               const config::ModelConfig& model_config);
/// As join_ranks, for a later stage of a job whose processes met with `store`.
[[nodiscard]] Ranks join_stage(const config::RunConfig& config,
                               const config::ModelConfig& model_config,
                               const c10::intrusive_ptr<c10d::Store>& store);

/// Runs a part of the training. Where there are other ranks, an error of it ends all of them with
/// one cause, from inside the call: nothing is unwound, since destructors may wait for ranks that
/// have gone.
void run_for_all(const Ranks& ranks, const std::function<void()>& part);

/// How the modules of the plan, which form the pipeline, lie over the ranks. The meshes must
/// outlive the layouts.
[[nodiscard]] model::ModelLayout lay_out(const config::RunConfig& config, const config::Plan& plan,
                                         const schedule::Pipeline& pipeline, const Meshes& meshes);
/// How a model lies over one mesh without a pipeline.
[[nodiscard]] parallel::Layout lay_out_on(const mesh::Mesh& mesh, const config::RunConfig& config);

/// The loader's state with what every replica's loader found bad.
/// collective: over all ranks
[[nodiscard]] data::LoaderState gather_loader_state(const Session& session, data::LoaderState own);

}  // namespace tributary::train
