#include "tests/train/equality/trainee.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "core/random.h"
#include "core/text.h"
#include "train/executor/gradients.h"
#include "train/optimizer/gradient_norm.h"
#include "train/start/ranks.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kImage = 50;
constexpr std::int64_t kPatchWidth = 96;

}  // namespace

config::ModelConfig tiny_model_config(bool sees) {
  config::ModelConfig config;
  config.family = sees ? config::ModelFamily::kQwen2_5Vl : config::ModelFamily::kQwen3;
  config.backbone = {.layers = 2,
                     .width = 32,
                     .heads = 4,
                     .kv_heads = kKvHeads,
                     .head_width = 8,
                     .mlp_width = 48,
                     .vocab = 61,  // no multiple of any number of ranks
                     .max_positions = 256,
                     .rope_theta = 1e4,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = sees,
                     .qk_norm = !sees,
                     .tied_head = !sees,
                     .mrope_section = {},
                     .initializer_range = 0.2};
  if (!sees) return config;
  config.backbone.mrope_section = {2, 1, 1};
  config::VisionConfig& vision = config.vision.emplace();
  vision.layers = 2;
  vision.width = 16;
  vision.heads = 4;
  vision.mlp_width = 24;
  vision.output_width = 32;
  vision.patch = 4;
  vision.window = 16;
  vision.full_attention_layers = {1};
  vision.initializer_range = 0.2;
  config.tokens.image_pad = kImage;
  config.tokens.video_pad = kImage + 1;
  return config;
}

namespace {

/// Text of random length, two of three with an image: some ranks see none.
data::EncodedSample make_sample(bool sees, int step, std::int64_t index) {
  RandomStream stream(7, str("sample ", step), static_cast<std::uint64_t>(index));
  data::EncodedSample sample;
  sample.key = str("made:", step, ".", index);
  const auto append = [&](std::int64_t count, bool is_target) {
    for (std::int64_t i = 0; i < count; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(stream.between(0, kImage - 1)));
      sample.targets.push_back(is_target ? stream.between(0, 60) : data::kIgnoredTarget);
    }
  };
  append(stream.between(1, 6), false);
  if (sees && index % 3 != 0) {
    const Grid grid{1, static_cast<std::int32_t>(2 * stream.between(1, 4)),
                    static_cast<std::int32_t>(2 * stream.between(1, 4))};
    data::PatchedItem item;
    item.grid = grid;
    for (std::int64_t i = 0; i < grid.patches() * kPatchWidth; ++i)
      item.rows.push_back(static_cast<float>(stream.normal()));
    for (std::int64_t i = 0; i < grid.patches() / 4; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(kImage));
      sample.targets.push_back(data::kIgnoredTarget);
    }
    sample.items.push_back(std::move(item));
  }
  append(stream.between(2, 9), true);
  return sample;
}

}  // namespace

Trainee::Trainee(const Cell& cell, const mesh::Mesh& mesh, std::uint64_t seed)
    : cell_(cell), mesh_(mesh) {
  config_.optimizer.learning_rate = 1e-3;
  config_.optimizer.clip_norm = 1;
  // Entries whose gradient is nothing but rounding would else take whole steps of either sign.
  config_.optimizer.epsilon = 1e-5;
  config_.optimizer.groups = {{.match = "*_proj.weight", .learning_rate_scale = 0.5},
                              {.match = "*norm*", .learning_rate_scale = 2}};
  config_.run.steps = cell.steps;
  config_.model.recompute = cell.recompute;
  config_.parallel.prefetch = cell.prefetch;
  config_.parallel.ulysses_async = cell.ulysses_async;
  if (!cell.offload.empty()) config_.parallel.offload = config::Offload::kParameters;
  if (cell.shards_optimizer) config_.parallel.shard = config::Shard::kOptimizer;
  config_.parallel.release = cell.releases ? config::Release::kAuto : config::Release::kNever;
  config_.parallel.schedule = cell.order;
  config_.parallel.virtual_stages = cell.virtual_stages;
  config_.parallel.vision_stages = cell.vision_stages;
  config::ModelConfig model_config = tiny_model_config(cell.sees);
  model_config.backbone.layers = cell.layers;
  model_config.backbone.tied_head = model_config.backbone.tied_head || cell.ties_head;
  config_.batch = {.global_samples = cell.samples,
                   .capacity_tokens = Tokens{60},
                   .packing = cell.microbatches > 0 ? config::Packing::kLevel
                                                    : config::Packing::kBestFitDecreasing,
                   .microbatches = cell.microbatches,
                   .balance = cell.balance};
  planner_ = std::make_unique<StepPlanner>(config_, model_config, mesh);
  model_ = model::make_model(model_config, lay_out(config_, mesh, model_config));
  for (const auto& unit : model_->units())
    unit->materialize(at::kCPU, at::kFloat, std::ranges::count(cell.freeze, unit->module()) == 0);
  model::initialize(*model_, seed);
  model_->set_recompute(cell.recompute, cell.offload);
  optimizer_ = make_optimizer(config_.optimizer, model_->units());
}

double Trainee::differentiate(int step) {
  std::vector<data::EncodedSample> batch;
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < cell_.samples; ++i) {
    batch.push_back(make_sample(cell_.sees, step, i));
    shapes.push_back(batch.back().shape());
  }
  const std::vector<std::int32_t> replica_of = planner_->plan(step, shapes);
  const PlannedStep planned = planner_->take(step);
  std::vector<data::EncodedSample> samples;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (replica_of[i] == mesh_.data_index()) samples.push_back(std::move(batch[i]));
  BatchResult result =
      accumulate_gradients(*model_, samples, planned.microbatches,
                           {.most_logits = cell_.chunks_head ? 2 * 61 : std::int64_t{1} << 26,
                            .plan = planned.fingerprint});
  sum_squared_ = sum_squared_gradients(model_->units());
  StepSums sums;
  name_slots(result, *model_, sums);
  sums.sum(sum_squared_);
  sums.share(mesh_.world());
  loss_ = result.loss;
  return loss_;
}

void Trainee::measure_norm() {
  sum_squared_ = sum_squared_gradients(model_->units());
  StepSums sums;
  sums.sum(sum_squared_);
  sums.share(mesh_.world());
}

Update Trainee::update() {
  return apply_update(*model_, *optimizer_, config_, loss_, sum_squared_);
}

}  // namespace tributary::train
