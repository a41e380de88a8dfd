#include <gtest/gtest.h>

#include "cost/module_cost.h"
#include "tests/cost/stages/stage_case.h"

namespace tributary::cost {
namespace {

using config::LayerKind;

double bytes(Bytes of) { return static_cast<double>(of.count); }

StageState state_of_blocks(const config::MeshShape& mesh, const LayerExecution& execution = {}) {
  return costs_of(plan_of(mesh), model_of(block_shape(), 4), execution).state(0, 0);
}

TEST(StageBytes, WithoutAPipelineEverythingIsSharded) {
  const StageState state = state_of_blocks({.dp_shard = 4});
  EXPECT_DOUBLE_EQ(bytes(state.parameters), 4 * 2 * kWeights / 4);
  EXPECT_DOUBLE_EQ(bytes(state.gradients), 4 * 4 * kWeights / 4);
  EXPECT_DOUBLE_EQ(bytes(state.optimizer), 4 * 12 * kWeights / 4);
  // Two layers' values, the gradient of one, and of two more with their float32 copies and shards.
  EXPECT_DOUBLE_EQ(bytes(state.gathered),
                   2 * 2 * kWeights + 2 * kWeights + 2 * (2 + 4 + 4.0 / 4) * kWeights);
}

TEST(StageBytes, AStageOfAPipelineKeepsValuesAndGradientsWhole) {
  const StageState state = state_of_blocks({.pp = 2, .dp_shard = 4});
  EXPECT_DOUBLE_EQ(bytes(state.parameters), 2 * (2 + 2.0 / 4) * kWeights);
  EXPECT_DOUBLE_EQ(bytes(state.gradients), 2 * (4 + 4.0 / 4) * kWeights);
  EXPECT_DOUBLE_EQ(bytes(state.optimizer), 2 * 12 * kWeights / 4);
  EXPECT_EQ(state.gathered, Bytes{0});
}

TEST(StageBytes, SharingTheOptimizerAloneIsAsInAPipeline) {
  const StageState state = state_of_blocks({.dp_shard = 4}, {.shard = config::Shard::kOptimizer});
  EXPECT_DOUBLE_EQ(bytes(state.parameters), 4 * (2 + 2.0 / 4) * kWeights);
  EXPECT_DOUBLE_EQ(bytes(state.gradients), 4 * (4 + 4.0 / 4) * kWeights);
  EXPECT_DOUBLE_EQ(bytes(state.optimizer), 4 * 12 * kWeights / 4);
}

TEST(StageBytes, NarrowGradientsAreWidenedForTheOptimizer) {
  const StageState state =
      state_of_blocks({.dp_shard = 4}, {.reduce_dtype = config::ReduceDtype::kSame});
  EXPECT_DOUBLE_EQ(bytes(state.gradients), 4 * 2 * kWeights / 4);
  EXPECT_DOUBLE_EQ(bytes(state.optimizer), 4 * 16 * kWeights / 4);
  const StageState one = state_of_blocks({.pp = 2}, {.reduce_dtype = config::ReduceDtype::kSame});
  EXPECT_DOUBLE_EQ(bytes(one.gradients), 2 * 2 * kWeights);  // the shard is the whole
}

TEST(StageBytes, SequenceRanksShareTheShardsToo) {
  const StageState samples = state_of_blocks({.dp_shard = 8});
  for (const config::MeshShape& mesh :
       {config::MeshShape{.dp_shard = 2, .cp = 4}, config::MeshShape{.cp = 2, .ulysses = 4},
        config::MeshShape{.dp_shard = 2, .cp = 2, .ulysses = 2}}) {
    const StageState state = state_of_blocks(mesh);
    EXPECT_EQ(state.parameters, samples.parameters);
    EXPECT_EQ(state.gradients, samples.gradients);
    EXPECT_EQ(state.optimizer, samples.optimizer);
    EXPECT_EQ(state.gathered, samples.gathered);
    EXPECT_EQ(state.optimizer_step, samples.optimizer_step);
  }
}

TEST(StageBytes, ReplicasAndTensorRanksAsTheGuideSays) {
  const StageState one = state_of_blocks({.dp_shard = 2});
  const StageState replicas = state_of_blocks({.dp_replicate = 4, .dp_shard = 2});
  EXPECT_EQ(replicas.parameters, one.parameters);
  EXPECT_EQ(replicas.gradients, one.gradients);
  EXPECT_EQ(replicas.optimizer, one.optimizer);
  const StageState cut = state_of_blocks({.dp_shard = 2, .tp = 4});
  EXPECT_EQ(cut.parameters * 4, one.parameters);
  EXPECT_EQ(cut.optimizer * 4, one.optimizer);
}

TEST(StageBytes, ActivationsFallWithSequenceAndTensorRanks) {
  const auto kept = [](const config::MeshShape& mesh) {
    return costs_of(plan_of(mesh), model_of(block_shape(), 4)).cost(0, 0, kMicrobatch).kept;
  };
  const Bytes one = kept({});
  EXPECT_EQ(kept({.cp = 4}) * 4, one);
  EXPECT_EQ(kept({.ulysses = 4}) * 4, one);
  EXPECT_EQ(kept({.tp = 4}) * 4, one);
  EXPECT_EQ(kept({.dp_shard = 4}), one);
}

TEST(StageBytes, ExpertsAreDealtOverEpAndShardedOverTheRest) {
  const auto state = [](const config::MeshShape& mesh) {
    return costs_of(plan_of(mesh, 1), model_of(mixture_shape(8), 1)).state(0, 0);
  };
  const double dense = kAttentionWeights + kNorms + 8 * kWidth;  // with the router
  const double experts = 8 * kMlpWeights;
  for (const std::int64_t ep : {1, 2, 8}) {
    const StageState cut = state({.dp_shard = 8, .ep = ep});
    EXPECT_DOUBLE_EQ(bytes(cut.parameters), 2 * (dense + experts) / 8);
    EXPECT_DOUBLE_EQ(bytes(cut.optimizer), 12 * (dense + experts) / 8);
    // Values and gradient of the only layer, of experts those of one ep rank: with 8 of these the
    // values are the shard.
    const double own_experts = experts / static_cast<double>(ep);
    EXPECT_DOUBLE_EQ(bytes(cut.gathered),
                     2 * (dense + (ep < 8 ? own_experts : 0)) + 2 * (dense + own_experts));
  }
}

TEST(StageBytes, SelectiveRecomputeDropsTheMlp) {
  config::Plan plan = plan_of({});
  const auto kept = [&](config::RecomputePlan recompute, const LayerExecution& execution = {}) {
    plan.modules[0].recompute = recompute;
    const LayerStageCosts costs = costs_of(plan, model_of(block_shape(), 4), execution);
    return bytes(costs.cost(0, 0, kMicrobatch).kept);
  };
  using enum config::RecomputePlan;
  EXPECT_DOUBLE_EQ(kept(kNone) - kept(kSelective), 4 * 2 * kTokens * (kWidth + 3 * kMlp));
  EXPECT_DOUBLE_EQ(kept(kFull), 4 * 2 * kTokens * kWidth);
  // With scores in memory they are what is dropped: 16-bit scores and their softmax, a mask.
  const LayerExecution scores{.attention = AttentionCore::kScores};
  EXPECT_DOUBLE_EQ(kept(kNone, scores) - kept(kSelective, scores),
                   4 * 5 * kHeads * kTokens * kTokens);
}

TEST(StageBytes, EveryNthLayerOfTheModuleRunsAgain) {
  // Layers 0 and 1 are on the first stage, 2 to 4 on the second: 0, 2 and 4 run again.
  const config::ModuleGraph model = model_of(block_shape(), 5);
  config::Plan plan = plan_of({.pp = 2}, 5);
  config::ModulePlan& backbone = plan.modules[0];
  const auto cost = [&](config::RecomputePlan recompute, int stage) {
    backbone.recompute = recompute;
    return costs_of(plan, model).cost(0, stage, kMicrobatch);
  };
  for (const auto level : {config::RecomputePlan::kFull, config::RecomputePlan::kSelective}) {
    for (const int stage : {0, 1}) {
      const double layers = stage == 0 ? 2 : 3;
      const double again = stage == 0 ? 1 : 2;
      backbone.recompute_every = 1;
      const StageCost none = cost(config::RecomputePlan::kNone, stage);
      const StageCost all = cost(level, stage);
      backbone.recompute_every = 2;
      const StageCost some = cost(level, stage);
      EXPECT_DOUBLE_EQ(bytes(none.kept - some.kept), bytes(none.kept - all.kept) / layers * again);
      EXPECT_NEAR(double((some.input_gradient - none.input_gradient).count),
                  double((all.input_gradient - none.input_gradient).count) / layers * again, 1);
    }
  }
}

TEST(StageBytes, ModuleCostCountsTheSameLayers) {
  const config::ModuleGraph model = model_of(block_shape(), 5);
  const auto cost = [&](config::RecomputePlan recompute, std::int64_t every) {
    return module_cost(one_node(), model.modules[0], kMicrobatch.backbone,
                       {.recompute = recompute, .recompute_every = every});
  };
  using enum config::RecomputePlan;
  const ModuleCost none = cost(kNone, 1);
  for (const auto level : {kFull, kSelective}) {
    EXPECT_DOUBLE_EQ(bytes(none.kept - cost(level, 2).kept),
                     bytes(none.kept - cost(level, 1).kept) * 3 / 5);
    EXPECT_EQ((cost(level, 2).backward - none.backward) * 5,
              (cost(level, 1).backward - none.backward) * 3);
  }
}

TEST(StageBytes, RecomputeAndFrozenLayersStillHoldOneLayerWhileItRuns) {
  config::Plan plan = plan_of({});
  const config::ModuleGraph model = model_of(block_shape(), 4);
  const StageCost none = costs_of(plan, model).cost(0, 0, kMicrobatch);
  plan.modules[0].recompute = config::RecomputePlan::kFull;
  const StageCost full = costs_of(plan, model).cost(0, 0, kMicrobatch);
  EXPECT_EQ(none.forward_peak, Bytes{0});
  EXPECT_DOUBLE_EQ(bytes(full.forward_peak), bytes(none.kept) / 4 - 2 * kTokens * kWidth);
  EXPECT_EQ(full.forward_peak, full.backward_peak);
  plan.modules[0].train = config::TrainMode::kFrozen;
  const StageCost frozen = costs_of(plan, model).cost(0, 0, kMicrobatch);
  EXPECT_EQ(frozen.kept, Bytes{0});
  EXPECT_DOUBLE_EQ(bytes(frozen.forward_peak), bytes(none.kept) / 4);
}

config::ModuleGraph tied_model(bool tied) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  std::vector<config::LayerRun>& layers = model.modules[0].layers;
  layers.insert(layers.begin(), {.shape = table_shape(LayerKind::kEmbedding)});
  layers.push_back({.shape = table_shape(LayerKind::kHead, tied)});
  return model;
}

TEST(StageBytes, ATiedHeadIsACopyWhereTheEmbeddingIsElsewhere) {
  const auto parameters = [](const config::Plan& plan, int stage) {
    return bytes(costs_of(plan, tied_model(true)).state(0, stage).parameters);
  };
  const double table = kVocab * kWidth;
  EXPECT_DOUBLE_EQ(parameters(plan_of({}), 0), 2 * (table + 4 * kWeights + kWidth));
  EXPECT_DOUBLE_EQ(parameters(plan_of({.pp = 2}), 0), 2 * (table + 2 * kWeights));
  EXPECT_DOUBLE_EQ(parameters(plan_of({.pp = 2}), 1), 2 * (table + 2 * kWeights + kWidth));
  const StageState last = costs_of(plan_of({.pp = 2}), tied_model(true)).state(0, 1);
  const StageState untied = costs_of(plan_of({.pp = 2}), tied_model(false)).state(0, 1);
  EXPECT_EQ(last.gradients, untied.gradients);
  EXPECT_EQ(last.optimizer, untied.optimizer);
}

TEST(StageBytes, ATiedHeadOfAVShapedOrderUsesTheEmbeddingItself) {
  config::Plan plan = plan_of({.pp = 2});
  plan.modules[0].schedule = config::PipelineOrder::kZbV;
  plan.modules[0].stages = {{.embed = true, .first = 0, .layers = 1},
                            {.first = 1, .layers = 1},
                            {.first = 2, .layers = 1},
                            {.first = 3, .layers = 1, .head = true}};
  const LayerStageCosts costs = costs_of(plan, tied_model(true));
  EXPECT_DOUBLE_EQ(bytes(costs.state(0, 3).parameters), 2 * (kWeights + kWidth));
  EXPECT_EQ(costs.state(0, 0).reduction, Nanoseconds{0});
}

}  // namespace
}  // namespace tributary::cost
