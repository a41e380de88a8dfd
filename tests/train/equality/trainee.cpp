#include "tests/train/equality/trainee.h"

#include <algorithm>
#include <iterator>

#include <ATen/ATen.h>

#include "config/plan/plan_of_run.h"
#include "core/random.h"
#include "core/text.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "train/executor/gradients.h"
#include "train/optimizer/gradient_norm.h"
#include "train/start/ranks.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kImage = 50;
constexpr std::int64_t kMelBins = 10;
constexpr std::int32_t kSound = 52;

/// Turns the tiny Qwen2.5-VL into a model whose pictures are cut into tiles: a backbone without
/// places in rows and columns, and every part that InternViT has.
void change_to_tiles(config::ModelConfig& config) {
  config::VisionConfig& vision = *config.vision;
  config.backbone.mrope_section = {};
  vision.temporal_patch = 1;
  vision.tile = 4 * vision.patch;
  vision.positions_side = vision.tile_side();
  if (vision.kind == config::VisionClass::kSiglip) {
    config.family = config::ModelFamily::kLlavaOneVision;
    vision.tile = 3 * vision.patch;
    vision.positions_side = vision.tile_side();
    vision.merge = 1;
    vision.projector_norm = false;
    vision.max_tiles = 1;  // so that large pictures are made smaller
    return;
  }
  config.family = config::ModelFamily::kInternVl;
  config.tokens.video_pad = -1;
  vision.class_token = true;
  vision.qk_norm = true;
  vision.layer_scale = 0.5;
}

/// Turns the tiny Qwen2.5-VL into a model with another tower.
void change_tower(config::VisionClass tower, config::ModelConfig& config) {
  config::VisionConfig& vision = *config.vision;
  vision.kind = tower;
  if (tower == config::VisionClass::kQwen2_5Vl) return;
  vision.window = 0;
  vision.full_attention_layers = {};
  if (tower == config::VisionClass::kInternVit || tower == config::VisionClass::kSiglip)
    return change_to_tiles(config);
  config.family = config::ModelFamily::kQwen2Vl;
  if (tower == config::VisionClass::kQwen2Vl) return;
  config.family = config::ModelFamily::kQwen3Vl;
  config.backbone.qkv_bias = false;
  config.backbone.qk_norm = true;
  config.backbone.mrope_interleaved = true;
  vision.positions_side = 5;
  vision.deepstack_layers = {0, 1};
  config.backbone.deepstack_levels = 2;
}

/// Turns the tiny Qwen3 into another model of text.
void change_text(config::ModelFamily family, config::ModelConfig& config) {
  config.family = family;
  config.backbone.qkv_bias = family == config::ModelFamily::kQwen2;
  config.backbone.qk_norm = family == config::ModelFamily::kQwen3;
}

}  // namespace

config::ModelConfig tiny_model_config(bool sees, config::VisionClass tower) {
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
  change_tower(tower, config);
  return config;
}

config::ModelConfig tiny_hearing_config(bool sees) {
  config::ModelConfig config = tiny_model_config(sees);
  config.family =
      sees ? config::ModelFamily::kQwen2_5OmniThinker : config::ModelFamily::kQwen2Audio;
  config.backbone.qkv_bias = true;
  config.backbone.qk_norm = false;
  config.backbone.tied_head = false;
  config.audio = {.layers = 2,
                  .width = 16,
                  .heads = 4,
                  .mlp_width = 24,
                  .output_width = config.backbone.width,
                  .mel_bins = kMelBins,
                  .positions = 20,
                  .chunk = sees ? 14 : 0,
                  .initializer_range = 0.2};
  config.tokens.audio_pad = kSound;
  if (sees) config.vision->splits_qkv = true;
  return config;
}

namespace {

/// A sound of random length.
data::PatchedItem make_sound(const config::AudioConfig& audio, RandomStream& stream) {
  data::PatchedItem item{.modality = Modality::kAudio,
                         .grid = audio.grid_of(stream.between(3, audio.max_frames())),
                         .rows = {}};
  for (std::int64_t i = 0; i < item.grid.patches() * kMelBins; ++i)
    item.rows.push_back(static_cast<float>(stream.normal()));
  return item;
}

/// Text of random length, one in three with images and one in three with a clip: some ranks see
/// none. A model that hears has a sound in one of three, and in one of six two of them.
data::EncodedSample make_sample(const config::ModelConfig& model, int step, std::int64_t index,
                                bool has_media = true) {
  const bool sees = has_media && model.vision;
  const std::optional<config::AudioConfig>& audio = model.audio;
  const bool hears = has_media && audio;
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
  const auto append_media = [&](Modality modality, std::int64_t frames, std::int64_t max) {
    data::PatchedItem item;
    item.modality = modality;
    item.grid = {frames, 2 * stream.between(1, max), 2 * stream.between(1, max)};
    if (model.vision->cuts_tiles()) {
      const std::int64_t side = model.vision->tile_side();
      item.grid = {stream.between(1, max), side, side};
      if (model.vision->clips_are_pictures()) item.modality = Modality::kImage;
      // A picture of tiles side by side and the whole, whose last row and column are padding.
      else if (modality == Modality::kImage)
        item.grid = {3, side, side, {2, side - 2, 2 * side}};
    }
    for (std::int64_t i = 0; i < item.grid.patches() * model.vision->patch_width(); ++i)
      item.rows.push_back(static_cast<float>(stream.normal()));
    const std::int64_t pad = item.modality == Modality::kVideo ? kImage + 1 : kImage;
    const std::int64_t tokens = model.vision->cuts_tiles()
                                    ? config::tokens_of_tiles(*model.vision, item.grid)
                                    : item.grid.patches() / 4;
    for (std::int64_t i = 0; i < tokens; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(pad));
      sample.targets.push_back(data::kIgnoredTarget);
    }
    sample.items.push_back(std::move(item));
  };
  const auto append_sound = [&] {
    sample.items.push_back(make_sound(*audio, stream));
    const auto tokens = audio->tokens_of(sample.items.back().grid);
    sample.tokens.insert(sample.tokens.end(), static_cast<std::size_t>(tokens), kSound);
    sample.targets.resize(sample.tokens.size(), data::kIgnoredTarget);
  };
  if (hears && index % 3 == 1) append_sound();
  if (hears && index % 6 == 1) append_sound();
  if (sees && index % 3 == 1) append_media(Modality::kImage, 1, 4);
  if (sees && index % 6 == 1) append_media(Modality::kImage, 1, 2);
  if (sees && index % 3 == 2) append_media(Modality::kVideo, stream.between(2, 5), 2);
  append(stream.between(2, 9), true);
  return sample;
}

/// Two samples as the answers of a pair.
data::EncodedSample make_pair(const config::ModelConfig& model, int step, std::int64_t index) {
  data::EncodedSample pair = make_sample(model, step, 2 * index);
  data::EncodedSample rejected = make_sample(model, step, 2 * index + 1);
  pair.rejected = std::ssize(rejected.tokens);
  std::ranges::copy(rejected.tokens, std::back_inserter(pair.tokens));
  std::ranges::copy(rejected.targets, std::back_inserter(pair.targets));
  std::ranges::move(rejected.items, std::back_inserter(pair.items));
  return pair;
}

void place_modules(const Cell& cell, config::ParallelSection& parallel) {
  parallel.schedule = cell.order;
  parallel.virtual_stages = cell.virtual_stages;
  parallel.vision_stages = cell.vision_stages;
  parallel.pp.count = cell.shape.pp;
  parallel.dp_replicate.count = cell.shape.dp_replicate;
  parallel.dp_shard.count = cell.shape.dp_shard;
  parallel.cp.count = cell.shape.cp;
  parallel.ulysses.count = cell.shape.ulysses;
  parallel.tp.count = cell.shape.tp;
}

/// Gives an encoder ranks of its own, all layers evenly over its stages.
void set_apart(config::ModulePlan& encoder, const config::MeshShape& mesh, std::int64_t layers,
               std::vector<std::int64_t> ranks) {
  encoder.placement = config::Placement::kSeparate;
  encoder.mesh = mesh;
  encoder.ranks = std::move(ranks);
  const std::int64_t of_stage = layers / mesh.pp;
  for (std::int64_t stage = 0; stage < mesh.pp; ++stage)
    encoder.stages.push_back({.first = stage * of_stage, .layers = of_stage});
}

std::vector<std::int64_t> ranks_between(std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = first; rank < end; ++rank) ranks.push_back(rank);
  return ranks;
}

/// The plan of a cell: that of its run, where encoders may lie on other ranks than the backbone.
config::Plan plan_of(const Cell& cell, const config::RunConfig& config, std::int64_t world,
                     const config::ModelConfig& model) {
  if (world == 1 || (!cell.vision && !cell.audio)) return plan_of_run(config, world, model);
  config::Plan plan = plan_of_run(config, cell.shape.world(), model);
  const auto module = [&plan](const std::string& name) -> config::ModulePlan& {
    return *std::ranges::find(plan.modules, name, &config::ModulePlan::name);
  };
  config::ModulePlan& backbone = module("backbone");
  const bool splits = schedule::traits_of(cell.order).splits_backward;
  const auto separate = [&](const std::string& name, const config::MeshShape& mesh,
                            std::vector<std::int64_t> ranks) {
    config::ModulePlan& encoder = module(name);
    set_apart(encoder, mesh, name == "vision" ? model.vision->layers : model.audio->layers,
              std::move(ranks));
    if (splits) encoder.schedule = config::PipelineOrder::kZbH1;
  };
  const auto colocate = [&](const std::string& name, const config::MeshShape& mesh,
                            std::int64_t passes, bool turns) {
    separate(name, mesh, backbone.ranks);
    config::ModulePlan& tower = module(name);
    tower.placement = config::Placement::kColocated;
    tower.schedule = config::PipelineOrder::k1f1b;
    tower.passes = passes;
    tower.turns = turns;
  };
  const bool has_audio_apart = cell.audio && cell.audio_passes == 0;
  const std::int64_t before_audio = world - (has_audio_apart ? cell.audio->world() : 0);
  if (has_audio_apart) separate("audio", *cell.audio, ranks_between(before_audio, world));
  if (cell.vision && cell.vision_passes == 0) {
    const bool is_behind = cell.vision_ranks.empty();
    separate(cell.encoder(), *cell.vision,
             is_behind ? ranks_between(cell.shape.world(), before_audio) : cell.vision_ranks);
  } else if (cell.vision) {
    colocate(cell.encoder(), *cell.vision, cell.vision_passes, cell.vision_turns);
  }
  if (cell.audio && cell.audio_passes > 0)
    colocate("audio", *cell.audio, cell.audio_passes, cell.audio_turns);
  backbone.ranks = ranks_between(0, before_audio);
  std::erase_if(backbone.ranks, [&](std::int64_t rank) {
    return cell.vision && cell.vision_passes == 0 &&
           std::ranges::count(module(cell.encoder()).ranks, rank) > 0;
  });
  config::check_plan_of_model(plan, model, "plan of the cell");
  return plan;
}

}  // namespace

Trainee::Trainee(const Cell& cell, const mesh::World& world, std::uint64_t seed) : cell_(cell) {
  config_.optimizer.learning_rate = 1e-3;
  config_.optimizer.kind = cell.optimizer;
  config_.optimizer.clip_norm = 1;
  // Entries whose gradient is nothing but rounding would else take whole steps of either sign.
  config_.optimizer.epsilon = 1e-5;
  config_.optimizer.groups = {{.match = "*_proj.weight", .learning_rate_scale = 0.5},
                              {.match = "*norm*", .learning_rate_scale = 2}};
  config_.run.steps = cell.steps;
  if (cell.compares_pairs)
    config_.objective = {.kind = config::ObjectiveKind::kDpo, .beta = 0.3, .sft_weight = 0.2};
  config_.model.recompute = cell.recompute;
  config_.parallel.prefetch = cell.prefetch;
  config_.parallel.ulysses_async = cell.ulysses_async;
  if (!cell.offload.empty()) config_.parallel.offload = config::Offload::kParameters;
  config_.model.freeze = cell.freeze;
  config_.model.adapter = cell.adapter;
  if (cell.shards_optimizer) config_.parallel.shard = config::Shard::kOptimizer;
  config_.parallel.release = cell.releases ? config::Release::kAuto : config::Release::kNever;
  config::ModelConfig model_config =
      cell.hears ? tiny_hearing_config(cell.sees) : tiny_model_config(cell.sees, cell.tower);
  if (!cell.sees && !cell.hears) change_text(cell.text, model_config);
  model_config.backbone.layers = cell.layers;
  model_config.backbone.tied_head = model_config.backbone.tied_head || cell.ties_head;
  config_.batch = {.global_samples = cell.samples,
                   .capacity_tokens = Tokens{cell.compares_pairs ? 120 : 60},
                   .packing = cell.microbatches > 0 ? config::Packing::kLevel
                                                    : config::Packing::kBestFitDecreasing,
                   .microbatches = cell.microbatches,
                   .balance = cell.balance};
  if (world.size() > 1) place_modules(cell, config_.parallel);
  const config::Plan plan = plan_of(cell, config_, world.size(), model_config);
  if (world.size() > 1) meshes_ = open_meshes(plan, world, kKvHeads);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const model::ModelLayout layouts = lay_out(config_, plan, pipeline, meshes_);
  lanes_ = lanes_of_run(plan, pipeline, meshes_, config::front_modules(model_config));
  planner_ = std::make_unique<StepPlanner>(config_, model_config, meshes_.backbone, lanes_.edges);
  router_ = std::make_unique<SampleRouter>(lanes_, meshes_, cell.samples);
  model_ = model::make_model(model_config, layouts);
  for (const auto& unit : model_->units())
    unit->materialize(world.device(), at::kFloat, model::trains(config_.model, *unit));
  // B starts at 0 in training, where A has no gradient.
  for (const auto& unit : model_->units())
    for (const auto& parameter : unit->parameters())
      if (parameter->name.ends_with(".lora_B.weight"))
        parameter->initializer = {.kind = parallel::Initializer::Kind::kNormal, .deviation = 0.3};
  model::initialize(*model_, seed);
  model_->set_recompute(cell.recompute, cell.offload);
  optimizer_ = make_optimizer(config_.optimizer, model_->units(), cell.compares_pairs);
}

double Trainee::differentiate(int step) {
  std::vector<data::EncodedSample> batch;
  std::vector<SampleShape> shapes;
  const bool has_media = !cell_.has_text_steps || step % 3 != 2;
  for (std::int64_t i = 0; i < cell_.samples; ++i) {
    batch.push_back(cell_.compares_pairs ? make_pair(model_->config(), step, i)
                                         : make_sample(model_->config(), step, i, has_media));
    shapes.push_back(batch.back().shape());
  }
  const std::int64_t first_id = step * cell_.samples;
  const StepPlanner::Dealt dealt = planner_->plan(first_id, shapes);
  const std::vector<data::SampleDuty> duties =
      router_->deal(first_id, dealt.replica_of, dealt.media);
  const PlannedStep planned = planner_->take(first_id);
  std::vector<data::EncodedSample> samples;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].id = first_id + static_cast<std::int64_t>(i);
    if (duties[i].takes) samples.push_back(std::move(batch[i]));
  }
  StepMedia media{.items = dealt.media, .first_id = first_id};
  if (lanes_.has_encoders_apart()) {
    TakenSamples parts = part_samples(std::move(samples), first_id, dealt.replica_of,
                                      mesh().data_index(), lanes_.taken_apart());
    samples = std::move(parts.own);
    media.encoded = std::move(parts.encoded);
  }
  const PairObjective pairs{.section = config_.objective, .reference = optimizer_->reference()};
  BatchResult result =
      accumulate_gradients(*model_, samples, planned.microbatches,
                           {.device = model_->device(),
                            .max_logits = cell_.chunks_head ? 2 * 61 : std::int64_t{1} << 26,
                            .pairs = cell_.compares_pairs ? &pairs : nullptr,
                            .plan = planned.fingerprint,
                            .lanes = &lanes_,
                            .media = &media});
  sum_squared_ = square_gradients(model_->units()).all;
  StepSums sums;
  name_slots(result, *model_, lanes_, sums);
  sums.sum(sum_squared_);
  sums.share(mesh().world());
  loss_ = result.loss;
  return loss_;
}

void Trainee::measure_norm() {
  sum_squared_ = square_gradients(model_->units()).all;
  StepSums sums;
  sums.sum(sum_squared_);
  sums.share(mesh().world());
}

Update Trainee::update() {
  return apply_update(*model_, *optimizer_, config_, loss_, sum_squared_);
}

}  // namespace tributary::train
