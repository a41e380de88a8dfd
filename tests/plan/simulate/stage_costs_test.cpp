#include "plan/simulate/stage_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/plan/simulate/plan_case.h"

namespace tributary::plan {
namespace {

config::ModuleGraph small_model(std::int64_t layers, bool has_vision) {
  config::LayerShape block{.kind = config::LayerKind::kBlock,
                           .input_width = 1024,
                           .width = 1024,
                           .heads = 16,
                           .kv_heads = 8,
                           .head_width = 64,
                           .mlp_width = 4096};
  config::LayerShape embedding{
      .kind = config::LayerKind::kEmbedding, .input_width = 1024, .width = 1024, .vocab = 32'000};
  config::LayerShape head = embedding;
  head.kind = config::LayerKind::kHead;
  config::LayerShape vision = block;
  vision.causal = false;
  config::ModuleGraph model{.name = "small",
                            .modules = {{.name = "backbone",
                                         .layers = {{.shape = embedding, .layers = 1},
                                                    {.shape = block, .layers = layers},
                                                    {.shape = head, .layers = 1}}}},
                            .edges = {}};
  if (!has_vision) return model;
  model.modules.push_back({.name = "vision", .layers = {{.shape = vision, .layers = 2}}});
  model.edges = {{.from = "vision", .to = "backbone"}};
  return model;
}

constexpr MicrobatchShape kShape{.backbone = {.tokens = 2048, .squared_tokens = 2048.0 * 2048},
                                 .encoder = {.tokens = 1024, .squared_tokens = 1024.0 * 1024}};

LayerStageCosts costs_of(const config::Plan& plan, std::int64_t layers = 4) {
  return {plan, small_model(layers, plan.modules.size() > 1), small_cluster(64),
          schedule::pipeline_of(plan)};
}

TEST(LayerStageCosts, StagesAddUpToTheWholeModel) {
  config::Plan cut = text_plan();
  config::Plan whole = cut;
  cut.modules[0].mesh = {.pp = 2};
  cut.modules[0].ranks = {0, 1};
  whole.modules[0].mesh = {};
  whole.modules[0].ranks = {0};
  whole.modules[0].stages = {{.embed = true, .first = 0, .layers = 4, .head = true}};
  const LayerStageCosts parts = costs_of(cut);
  const LayerStageCosts all = costs_of(whole);
  const StageCost a = parts.cost(0, 0, kShape);
  const StageCost b = parts.cost(0, 1, kShape);
  const StageCost sum = all.cost(0, 0, kShape);
  EXPECT_EQ((a.forward + b.forward), sum.forward);
  EXPECT_EQ((a.weight_gradient + b.weight_gradient), sum.weight_gradient);
  EXPECT_EQ((a.kept + b.kept), sum.kept);
  EXPECT_EQ((parts.state(0, 0).optimizer + parts.state(0, 1).optimizer), all.state(0, 0).optimizer);
  EXPECT_DOUBLE_EQ(a.flops + b.flops, sum.flops);
}

TEST(LayerStageCosts, AFrozenEncoderHasNoBackwardAndNoState) {
  const LayerStageCosts costs = costs_of(vision_plan());
  const StageCost vision = costs.cost(1, 0, kShape);
  EXPECT_GT(vision.forward.count, 0);
  EXPECT_EQ(vision.input_gradient.count, 0);
  EXPECT_EQ(vision.weight_gradient.count, 0);
  EXPECT_EQ(vision.kept.count, 0);
  EXPECT_GT(vision.forward_peak.count, 0);  // while it runs, one layer is there
  EXPECT_EQ(costs.state(1, 0).optimizer.count, 0);
  EXPECT_GT(costs.state(1, 0).parameters.count, 0);
}

TEST(LayerStageCosts, RecomputeTradesTimeForMemory) {
  config::Plan plan = text_plan();
  const StageCost none = costs_of(plan).cost(0, 0, kShape);
  plan.modules[0].recompute = config::RecomputePlan::kSelective;
  const StageCost selective = costs_of(plan).cost(0, 0, kShape);
  plan.modules[0].recompute = config::RecomputePlan::kFull;
  const StageCost full = costs_of(plan).cost(0, 0, kShape);
  EXPECT_LT(none.input_gradient, selective.input_gradient);
  EXPECT_LT(selective.input_gradient, full.input_gradient);
  EXPECT_GT(none.kept, selective.kept);
  EXPECT_GT(selective.kept, full.kept);
  EXPECT_EQ(none.forward, full.forward);
  EXPECT_EQ(none.flops, full.flops);  // model FLOPs do not count what runs again
}

TEST(LayerStageCosts, TensorParallelExposesItsAllReduces) {
  config::Plan plan = text_plan();
  plan.modules[0].mesh = {.pp = 2, .dp_shard = 2, .tp = 2};
  plan.modules[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const StageCost cut = costs_of(plan).cost(0, 0, kShape);
  const StageCost whole = costs_of(text_plan()).cost(0, 0, kShape);
  EXPECT_LT(cut.forward, whole.forward);
  EXPECT_GT(cut.forward_exposed, whole.forward_exposed);
  EXPECT_LT(cut.boundary, whole.boundary);
}

TEST(LayerStageCosts, InlineModulesRunOnTheFirstStage) {
  config::Plan plan = text_plan();
  plan.modules.push_back({.name = "vision", .placement = config::Placement::kInline});
  plan.edges = {{.from = "vision", .to = "backbone"}};
  const LayerStageCosts with = costs_of(plan);
  const LayerStageCosts without = costs_of(text_plan());
  EXPECT_GT(with.cost(0, 0, kShape).forward, without.cost(0, 0, kShape).forward);
  EXPECT_EQ(with.cost(0, 1, kShape).forward, without.cost(0, 1, kShape).forward);
  EXPECT_EQ(with.cost(0, 0, kShape).boundary, without.cost(0, 0, kShape).boundary);
}

TEST(LayerStageCosts, NamesWhatDoesNotFitTheModel) {
  EXPECT_THAT([] { (void)costs_of(text_plan(), 5); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "where: modules.backbone.stages; found: 4 layers; expected: 5 layers")));
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules)
    if (module.name == "vision") module.name = "audio";
  plan.edges[0].from = "audio";
  EXPECT_THAT([&] { (void)costs_of(plan); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("model has no such module; where: modules.audio")));
}

}  // namespace
}  // namespace tributary::plan
