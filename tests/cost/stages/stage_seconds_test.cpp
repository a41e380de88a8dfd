#include <algorithm>
#include <gtest/gtest.h>

#include "tests/cost/stages/stage_case.h"

namespace tributary::cost {
namespace {

using config::LayerKind;

double ns(Nanoseconds time) { return static_cast<double>(time.count); }
constexpr double kRounding = 40;  // each collective is rounded to a nanosecond

StageCost blocks(const config::Plan& plan, const LayerExecution& execution = {},
                 const config::LayerShape& block = block_shape()) {
  return costs_of(plan, model_of(block, 4), execution).cost(0, 0, kMicrobatch);
}
/// Nothing of parameters and gradients travels within the microbatches.
constexpr LayerExecution kOnce{.shard = config::Shard::kOptimizer};

/// The same block on one of `cut` ranks of a sequence.
LayerCost block_cost(double cut, std::int64_t tp = 1) {
  return layer_cost(one_node().device, block_shape(),
                    {.tokens = kTokens / cut, .squared_tokens = kTokens * kTokens / cut},
                    {.tp = tp, .sequence_parallel = tp > 1});
}

TEST(StageSeconds, WithoutAPipelineLayersAreGatheredTwiceAndReducedInEachMicrobatch) {
  const config::Plan plan = plan_of({.dp_shard = 4});
  const StageCost cost = blocks(plan);
  const double gather = gather_ns(4, 2 * kWeights);
  const double reduce = gather_ns(4, 4 * kWeights);
  EXPECT_NEAR(ns(cost.forward + cost.forward_exposed), 4 * gather, kRounding);
  EXPECT_NEAR(ns(cost.input_gradient + cost.weight_gradient + cost.gradient_exposed),
              4 * (gather + reduce), kRounding);
  const StageState state = costs_of(plan, model_of(block_shape(), 4)).state(0, 0);
  EXPECT_NEAR(ns(state.reduction), reduce, kRounding);  // of the layer that is done last
  const config::DeviceModel device = one_node().device;
  EXPECT_NEAR(ns(state.optimizer_step),
              1e9 * 28 * kWeights / (device.memory_bytes_per_s * device.memory_share), kRounding);
}

TEST(StageSeconds, AStageOfAPipelineGathersAndReducesOnceAStep) {
  const config::Plan plan = plan_of({.pp = 2, .dp_shard = 4});
  const StageCost cost = blocks(plan);
  EXPECT_EQ(cost.forward_exposed, Nanoseconds{0});
  EXPECT_EQ(cost.gradient_exposed, Nanoseconds{0});
  const StageState state = costs_of(plan, model_of(block_shape(), 4)).state(0, 0);
  EXPECT_NEAR(ns(state.reduction), 2 * gather_ns(4, 4 * kWeights), kRounding);
  const config::DeviceModel device = one_node().device;
  const double update =
      1e9 * 28 * 2 * kWeights / 4 / (device.memory_bytes_per_s * device.memory_share);
  const double gather = 2 * gather_ns(4, 2 * kWeights) - ns(cost.forward);
  EXPECT_NEAR(ns(state.optimizer_step), update + gather, kRounding);
}

TEST(StageSeconds, AnEncoderOfItsOwnMakesAPipeline) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  model.modules.push_back({.name = "vision", .layers = {{.shape = block_shape(), .layers = 1}}});
  model.edges = {{.from = "vision", .to = "backbone"}};
  config::Plan plan = plan_of({.dp_shard = 4});
  plan.modules.push_back({.name = "vision", .placement = config::Placement::kInline});
  plan.edges = {{.from = "vision", .to = "backbone"}};
  const StageState inlined = costs_of(plan, model).state(0, 0);
  EXPECT_GT(inlined.gathered, Bytes{0});
  plan.modules[1].placement = config::Placement::kSeparate;
  plan.modules[1].ranks = {4};
  const StageState apart = costs_of(plan, model).state(0, 0);
  EXPECT_EQ(apart.gathered, Bytes{0});
  EXPECT_GT(apart.gradients, inlined.gradients);
}

TEST(StageSeconds, ReplicasAddTheShardsOfAStep) {
  const auto reduction = [](const config::MeshShape& mesh, const LayerExecution& execution = {}) {
    return ns(costs_of(plan_of(mesh), model_of(block_shape(), 4), execution).state(0, 0).reduction);
  };
  EXPECT_NEAR(reduction({.dp_replicate = 8, .dp_shard = 2}) - reduction({.dp_shard = 2}),
              4 * sum_ns(8, 4 * kWeights / 2), kRounding);
  EXPECT_NEAR(reduction({.dp_replicate = 8}, {.reduce_dtype = config::ReduceDtype::kSame}),
              4 * sum_ns(8, 2 * kWeights), kRounding);
}

TEST(StageSeconds, TransfersThatComputeHidesSlowItDown) {
  config::Cluster cluster = one_node();
  cluster.device.overlap_slowdown = 1.25;
  cluster.device.matrix_flops_per_s = 1e11;  // compute hides everything
  const StageCost cost = costs_of(plan_of({.dp_shard = 4}), model_of(block_shape(), 4), {}, cluster)
                             .cost(0, 0, kMicrobatch);
  EXPECT_GT(ns(cost.forward), 4 * gather_ns(4, 2 * kWeights));
  EXPECT_NEAR(ns(cost.forward_exposed), 4 * gather_ns(4, 2 * kWeights) * 0.25 / 1.25, kRounding);
  EXPECT_NEAR(ns(cost.gradient_exposed), 4 * gather_ns(4, 6 * kWeights) * 0.25 / 1.25, kRounding);
}

TEST(StageSeconds, KeysAndValuesPassAroundTheRing) {
  for (const double ranks : {2.0, 4.0, 8.0}) {
    const StageCost cost = blocks(plan_of({.cp = static_cast<std::int64_t>(ranks)}), kOnce);
    const LayerCost layer = block_cost(ranks);
    const double hop = 1e9 * 2 * 2 * kKvHeads * kHeadWidth * kTokens / ranks / kLink;
    const double attend = ns(layer.attention_forward) / ranks;
    const double differentiate = ns(layer.attention_gradient) / ranks;
    EXPECT_NEAR(ns(cost.forward_exposed), 4 * (ranks - 1) * (hop - attend), kRounding * ranks);
    // The block again, but for the last step, and its float32 gradients, which the last step and
    // the way home wait for.
    const double back = (hop - differentiate) + (ranks - 2) * (3 * hop - differentiate) +
                        (2 * hop - differentiate) + 2 * hop;
    EXPECT_NEAR(ns(cost.gradient_exposed), 4 * back, kRounding * ranks);
  }
}

TEST(StageSeconds, HeadsAreExchangedFourTimesEachWay) {
  for (const double ranks : {2.0, 4.0, 16.0}) {
    const StageCost cost = blocks(plan_of({.ulysses = static_cast<std::int64_t>(ranks)}), kOnce);
    const double kv_heads = std::max(kKvHeads, ranks);  // repeated where there are fewer
    const double values = 2 * kTokens / ranks * kHeadWidth * (2 * kHeads + 2 * kv_heads);
    EXPECT_NEAR(ns(cost.forward_exposed), 4 * gather_ns(ranks, values), kRounding);
    EXPECT_NEAR(ns(cost.gradient_exposed), 4 * gather_ns(ranks, values), kRounding);
  }
}

TEST(StageSeconds, TheRingOfExchangedHeadsHasFewerOfThem) {
  const StageCost cost = blocks(plan_of({.cp = 2, .ulysses = 4}), kOnce);
  const StageCost heads = blocks(plan_of({.ulysses = 8}), kOnce);
  const double hop = 1e9 * 2 * 2 * kKvHeads / 4 * kHeadWidth * kTokens / 2 / kLink;
  const double values = 2 * kTokens / 8 * kHeadWidth * (2 * kHeads + 2 * kKvHeads);
  const double attend = ns(block_cost(8).attention_forward) / 2;
  EXPECT_NEAR(ns(cost.forward_exposed), 4 * (gather_ns(4, values) + hop - attend), kRounding);
  EXPECT_EQ(cost.forward, heads.forward);
}

TEST(StageSeconds, TensorRanksAddTwiceALayerEachWay) {
  const StageCost cost = blocks(plan_of({.tp = 4}), kOnce);
  const double sum = sum_ns(4, 2 * kTokens * kWidth);
  EXPECT_NEAR(ns(cost.forward_exposed), 4 * 2 * sum, kRounding);
  EXPECT_NEAR(ns(cost.gradient_exposed), 4 * 2 * sum, kRounding);
}

TEST(StageSeconds, TokensGoToTheirExpertsAndBack) {
  const config::MeshShape all{.dp_shard = 8, .ep = 8};
  const StageCost cost = blocks(plan_of(all), kOnce, mixture_shape(8));
  const double exchange = gather_ns(8, 2 * kTokens * 2 * kWidth);
  EXPECT_NEAR(ns(cost.forward_exposed), 4 * 2 * exchange, kRounding);
  EXPECT_NEAR(ns(cost.gradient_exposed), 4 * 2 * exchange, kRounding);
  // Gathered and reduced are the experts of one ep rank, over the ranks that ep leaves.
  const auto reduction = [](std::int64_t ep) {
    return ns(costs_of(plan_of({.dp_shard = 8, .ep = ep}, 1), model_of(mixture_shape(8), 1), kOnce)
                  .state(0, 0)
                  .reduction);
  };
  const double dense = kAttentionWeights + kNorms + 8 * kWidth;
  EXPECT_NEAR(reduction(1), gather_ns(8, 4 * dense) + gather_ns(8, 4 * 8 * kMlpWeights), kRounding);
  EXPECT_NEAR(reduction(2), gather_ns(8, 4 * dense) + gather_ns(4, 4 * 4 * kMlpWeights), kRounding);
  EXPECT_NEAR(reduction(8), gather_ns(8, 4 * dense), kRounding);
}

TEST(StageSeconds, SelectiveRecomputeRunsTheMlpAgain) {
  config::Plan plan = plan_of({.tp = 4});
  const StageCost none = blocks(plan, kOnce);
  const LayerCost layer = block_cost(1, 4);
  plan.modules[0].recompute = config::RecomputePlan::kSelective;
  const StageCost selective = blocks(plan, kOnce);
  EXPECT_EQ(selective.input_gradient - none.input_gradient, layer.recompute_selective * 4);
  EXPECT_NEAR(ns(selective.gradient_exposed - none.gradient_exposed),
              4 * sum_ns(4, 2 * kTokens * kWidth), kRounding);
  EXPECT_GT(layer.recompute_selective * 3, layer.recompute);
  EXPECT_LT(layer.recompute_selective, layer.recompute);
  plan.modules[0].recompute = config::RecomputePlan::kFull;
  const StageCost full = blocks(plan, kOnce);
  EXPECT_EQ(full.input_gradient - none.input_gradient, layer.recompute * 4);
  EXPECT_NEAR(ns(full.gradient_exposed - none.gradient_exposed),
              4 * 2 * sum_ns(4, 2 * kTokens * kWidth), kRounding);
}

TEST(StageSeconds, CopiesOfATiedTableAddTheirGradients) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  std::vector<config::LayerRun>& layers = model.modules[0].layers;
  layers.insert(layers.begin(), {.shape = table_shape(LayerKind::kEmbedding)});
  layers.push_back({.shape = table_shape(LayerKind::kHead, true)});
  config::ModuleGraph untied = model;
  untied.modules[0].layers.back().shape.tied = false;
  const config::Plan plan = plan_of({.pp = 2, .dp_shard = 4});
  for (const int stage : {0, 1})
    EXPECT_NEAR(ns(costs_of(plan, model).state(0, stage).reduction) -
                    ns(costs_of(plan, untied).state(0, stage).reduction),
                sum_ns(2, 4 * kVocab * kWidth / 4), kRounding);
  // Where they are one, the table is gathered for the head once more.
  const StageCost shared = costs_of(plan_of({.dp_shard = 4}), model).cost(0, 0, kMicrobatch);
  const StageCost own = costs_of(plan_of({.dp_shard = 4}), untied).cost(0, 0, kMicrobatch);
  EXPECT_EQ(shared.forward_exposed, own.forward_exposed);
}

TEST(StageSeconds, RanksThatStraddleNodesMeetOnTheSlowerLinks) {
  config::Cluster cluster = one_node();
  cluster.levels = {{.name = "node", .ranks = 8, .bytes_per_s = 100e9},
                    {.name = "all", .ranks = 64, .bytes_per_s = 10e9}};
  config::Plan plan = plan_of({.tp = 8});
  const auto exposed = [&] {
    return costs_of(plan, model_of(block_shape(), 4), kOnce, cluster)
        .cost(0, 0, kMicrobatch)
        .forward_exposed;
  };
  const Nanoseconds inside = exposed();
  plan.modules[0].ranks = {4, 5, 6, 7, 8, 9, 10, 11};
  const Nanoseconds straddling = exposed();
  plan.modules[0].ranks = {0, 8, 16, 24, 32, 40, 48, 56};
  const Nanoseconds scattered = exposed();
  EXPECT_LT(inside, straddling);
  EXPECT_LT(straddling, scattered);
  EXPECT_NEAR(ns(scattered), 4 * 2 * 2.0 * 7 / 8 * 2 * kTokens * kWidth / 10e9 * 1e9, kRounding);
}

TEST(StageSeconds, AFrozenInlineModulePaysForNoOthersTraining) {
  config::LayerShape vision = block_shape();
  vision.causal = false;
  config::ModuleGraph model = model_of(block_shape(), 4);
  model.modules.push_back({.name = "audio", .layers = {{.shape = vision, .layers = 2}}});
  model.modules.push_back({.name = "vision", .layers = {{.shape = vision, .layers = 2}}});
  model.edges = {{.from = "audio", .to = "backbone"}, {.from = "vision", .to = "backbone"}};
  config::Plan plan = plan_of({});
  plan.modules.push_back({.name = "audio", .placement = config::Placement::kInline});
  plan.modules.push_back({.name = "vision", .placement = config::Placement::kInline});
  MicrobatchShape shape = kMicrobatch;
  shape.encoder = shape.backbone;
  const auto backward = [&](bool audio_trains, bool vision_trains) {
    using enum config::TrainMode;
    plan.modules[1].train = audio_trains ? kFull : kFrozen;
    plan.modules[2].train = vision_trains ? kFull : kFrozen;
    return costs_of(plan, model).cost(0, 0, shape).input_gradient;
  };
  const Nanoseconds none = backward(false, false);
  const Nanoseconds one = backward(true, false);
  EXPECT_EQ(one, backward(false, true));  // whichever comes first in the list
  EXPECT_EQ(backward(true, true) - one, one - none);
  EXPECT_EQ(one - none,
            layer_cost(one_node().device, vision, shape.encoder, {}).input_gradient * 2);
}

TEST(StageSeconds, FeaturesGoToTheRanksThatHoldTheirTokens) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  const config::LayerShape projector{
      .kind = LayerKind::kProjector, .input_width = 1024, .width = 1024, .merge = 4};
  model.modules.push_back({.name = "projector", .layers = {{.shape = projector, .layers = 1}}});
  model.edges = {{.from = "projector", .to = "backbone"}};
  config::Plan plan = plan_of({.cp = 2, .ulysses = 2});
  plan.modules.push_back({.name = "projector", .placement = config::Placement::kInline});
  MicrobatchShape images;
  images.encoder = kMicrobatch.backbone;
  const StageCost cost = costs_of(plan, model, kOnce).cost(0, 0, images);
  EXPECT_NEAR(ns(cost.forward_exposed), gather_ns(4, 2 * kTokens / 4 / 4 * kWidth), kRounding);
  EXPECT_EQ(cost.gradient_exposed, cost.forward_exposed);
}

TEST(StageSeconds, StagesPricedApartAddUpToThoseOfAPipeline) {
  config::Plan whole = plan_of({.pp = 2, .dp_shard = 4});
  config::Plan units = plan_of({.dp_shard = 4});
  units.modules[0].stages.clear();
  for (std::int64_t layer = 0; layer < 4; ++layer)
    units.modules[0].stages.push_back({.embed = layer == 0, .first = layer, .layers = 1});
  const config::ModuleGraph model = model_of(block_shape(), 4);
  const LayerStageCosts apart = costs_of(units, model, {.apart = true});
  const StageState stage = costs_of(whole, model).state(0, 0);
  EXPECT_EQ(apart.state(0, 1).gradients * 2, stage.gradients);
  EXPECT_EQ(apart.state(0, 1).parameters * 2, stage.parameters);
  EXPECT_NEAR(ns(apart.state(0, 1).reduction) * 2, ns(stage.reduction), kRounding);
}

}  // namespace
}  // namespace tributary::cost
