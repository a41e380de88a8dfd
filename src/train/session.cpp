#include "train/session.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/cores.h"
#include "core/error.h"
#include "data/loader/encode_sample.h"
#include "mesh/device.h"
#include "ops/resize_bicubic.h"
#include "train/run/identity.h"

namespace tributary::train {
namespace {

void set_compute(const config::RunSection& run, const mesh::Launch& launch) {
  at::set_num_threads(compute_threads(run.threads, launch.local_world));
  // Some sums differ between runs without this: docs/theory/reliability.md, "Repeatable sums".
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // That mode also fills every empty tensor before its first use, which no kernel here reads.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

at::ScalarType dtype_of(const config::ModelSection& model, const at::Device& device) {
  if (model.dtype == config::Dtype::kFloat32) return at::kFloat;
  TRIB_REQUIRE(!device.is_cpu(), .what = "train: dtype is not supported on the device",
               .where = "model.dtype", .found = str("bfloat16 on ", device.str()),
               .expected = "float32 on a CPU", .fix = "set model.dtype to float32");
  return at::kBFloat16;
}

/// Deals by the planner's plans; without one, samples are dealt in turn.
data::Deal deal_by(StepPlanner* planner) {
  if (planner == nullptr) return {};
  return [planner](std::int64_t first_index, std::span<const SampleShape> shapes) {
    return planner->plan(first_index, shapes);
  };
}

data::Picture resize_picture(const data::Picture& picture, int height, int width) {
  return {.width = width,
          .height = height,
          .rgb = ops::resize_bicubic(picture.rgb, picture.height, picture.width, height, width)};
}

}  // namespace

std::unique_ptr<model::Model> build_model(const config::RunConfig& config,
                                          const config::ModelConfig& model_config,
                                          const parallel::Layout& layout, at::Device device) {
  auto model = model::make_model(model_config, layout);
  const std::vector<std::string>& freeze = config.model.freeze;
  bool any_trainable = false;
  for (const auto& unit : model->units()) {
    const bool trainable = std::find(freeze.begin(), freeze.end(), unit->module()) == freeze.end();
    unit->materialize(device, dtype_of(config.model, device), trainable);
    any_trainable = any_trainable || trainable;
  }
  TRIB_REQUIRE(any_trainable, .what = "train: every module is frozen", .where = "model.freeze",
               .expected = "at least one module to train");
  if (config.model.weights == config::Weights::kPretrained) {
    model::load_weights(*model, config.model.path);
  } else {
    model::initialize(*model, config.run.seed);
  }
  model->set_recompute(config.model.recompute, config.model.offload);
  return model;
}

Session open_session(const config::RunConfig& config, const Ranks& ranks,
                     const std::string& quarantine_path) {
  const mesh::Mesh& mesh = ranks.mesh;
  set_compute(config.run, ranks.launch);
  Session session;
  session.config = config;
  session.mesh = &mesh;
  session.health = ranks.health.get();
  session.drill = ranks.drill.get();
  session.device = mesh::open_device(config.run.device, ranks.launch.local_rank);
  session.model_config = config::read_model_config(config.model.path);
  for (const config::SourceSection& source : config.data.sources)
    session.sources.push_back(source.name);
  session.tokenizer = std::make_unique<data::Tokenizer>(
      data::Tokenizer::load(config.model.path + "/tokenizer.json"));
  session.encoder =
      data::make_encoder(config, session.model_config, *session.tokenizer, resize_picture);
  if (config.batch.balance != config::Balance::kNone &&
      (mesh.data_ranks() > 1 || config.batch.packing == config::Packing::kLevel))
    session.planner = std::make_unique<StepPlanner>(config, session.model_config, mesh);
  session.loader = std::make_unique<data::Loader>(
      data::LoaderOptions{.data = config.data,
                          .seed = config.run.seed,
                          .batch_samples = config.batch.global_samples,
                          .quarantine_path = quarantine_path,
                          .part = mesh.data_index(),
                          .parts = mesh.data_ranks(),
                          .deal = deal_by(session.planner.get()),
                          .begin_thread = unbind_from_cores},
      *session.encoder);
  session.held_out = std::make_unique<data::HeldOut>(config.data, *session.encoder);
  session.model = build_model(config, session.model_config,
                              lay_out(config, mesh, session.model_config), session.device);
  session.optimizer = std::make_unique<AdamW>(session.model->units(), config.optimizer);
  session.identity = identify(session);
  return session;
}

}  // namespace tributary::train
