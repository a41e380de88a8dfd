#include "cost/stages/stage_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/cost/small_plans.h"
#include "tests/cost/stages/omni_case.h"

namespace tributary::cost {
namespace {

constexpr MicrobatchShape kShape{.backbone = {.tokens = 2048, .squared_tokens = 2048.0 * 2048},
                                 .encoder = {.tokens = 1024, .squared_tokens = 1024.0 * 1024}};

LayerStageCosts small_costs(const config::Plan& plan, std::int64_t layers = 4) {
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
  const LayerStageCosts parts = small_costs(cut);
  const LayerStageCosts all = small_costs(whole);
  const StageCost a = parts.cost(0, 0, kShape);
  const StageCost b = parts.cost(0, 1, kShape);
  const StageCost sum = all.cost(0, 0, kShape);
  EXPECT_EQ((a.forward + b.forward), sum.forward);
  EXPECT_EQ((a.weight_gradient + b.weight_gradient), sum.weight_gradient);
  EXPECT_EQ((a.kept + b.kept), sum.kept);
  EXPECT_EQ((parts.state(0, 0).optimizer + parts.state(0, 1).optimizer), all.state(0, 0).optimizer);
  EXPECT_DOUBLE_EQ(parts.flops(0, 0, kShape).all.causal + parts.flops(0, 1, kShape).all.causal,
                   all.flops(0, 0, kShape).all.causal);
}

TEST(LayerStageCosts, StagesOfAVisionTowerHaveTheFullAttentionOfTheirIndexes) {
  const auto stages_of = [](const char* indexes) {
    const config::ModuleGraph model = config::parse_graph_of_model(
        str(R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
                "num_key_value_heads": 4, "intermediate_size": 18944, "num_hidden_layers": 4,
                "vocab_size": 152064, "vision_config": {"hidden_size": 1280, "depth": 32,
                "num_heads": 16, "intermediate_size": 3420, "fullatt_block_indexes": )",
            indexes, "}}"),
        "config.json");
    const config::Plan plan = config::parse_plan(R"({
      "format": "tributary.plan/1",
      "modules": {"vision": {"ranks": "1-4", "mesh": {"pp": 4},
                             "stages": [["0-7"], ["8-15"], ["16-23"], ["24-31"]]},
                  "projector": {"placement": "inline"},
                  "backbone": {"ranks": "0-0", "stages": [["embed", "0-3", "head"]]}},
      "edges": [{"from": "vision", "to": "projector"}, {"from": "projector", "to": "backbone"}],
      "batch": {"global_samples": 4, "microbatches": 4, "capacity_tokens": 8192}})",
                                                 "plan.json");
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    const LayerStageCosts costs(plan, model, small_cluster(8), pipeline);
    int vision = 0;
    while (pipeline.modules[vision].name != "vision") ++vision;
    const MicrobatchShape picture{
        .backbone = {}, .encoder = {.tokens = 16'384, .squared_tokens = 16'384.0 * 16'384}};
    std::vector<std::int64_t> forward;
    for (int stage = 0; stage < 4; ++stage)
      forward.push_back(costs.cost(vision, stage, picture).forward.count);
    return forward;
  };
  const std::vector<std::int64_t> level = stages_of("[7, 15, 23, 31]");
  EXPECT_GT(level[0], level[1]);  // the embedding of the patches
  EXPECT_EQ(level[1], level[2]);
  EXPECT_EQ(level[2], level[3]);
  const std::vector<std::int64_t> uneven = stages_of("[8, 9, 23]");
  EXPECT_EQ(uneven[2], level[2]);
  EXPECT_EQ(uneven[1] - uneven[2], uneven[2] - uneven[3]);  // two, one and none of them
  EXPECT_GT(uneven[2], uneven[3]);
}

TEST(LayerStageCosts, AFrozenEncoderHasNoBackwardAndNoState) {
  const LayerStageCosts costs = small_costs(vision_plan());
  const StageCost vision = costs.cost(1, 0, kShape);
  EXPECT_GT(vision.forward.count, 0);
  EXPECT_EQ(vision.input_gradient.count, 0);
  EXPECT_EQ(vision.weight_gradient.count, 0);
  EXPECT_EQ(vision.kept.count, 0);
  EXPECT_GT(vision.forward_peak.count, 0);  // while it runs, one layer is there
  EXPECT_EQ(costs.state(1, 0).optimizer.count, 0);
  EXPECT_GT(costs.state(1, 0).parameters.count, 0);
}

TEST(LayerStageCosts, AllRanksOfThePlanAddUpTheNormOfTheGradients) {
  const config::Cluster cluster = small_cluster(64);
  const auto host_step = [&](config::Plan plan) {
    const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
    const LayerStageCosts costs(plan, small_model(4, true), cluster, pipeline);
    const Nanoseconds step = costs.state(0, 0).host_step;
    for (int module = 0; module < std::ssize(pipeline.modules); ++module)
      EXPECT_EQ(costs.state(module, 0).host_step, step);
    return step;
  };
  config::Plan plan = vision_plan();
  std::vector<std::int64_t> ranks;
  for (const config::ModulePlan& module : plan.modules)
    ranks.insert(ranks.end(), module.ranks.begin(), module.ranks.end());
  std::sort(ranks.begin(), ranks.end());
  const Nanoseconds once =
      collective_cost(cluster, config::CollectiveOp::kAllReduce, group_of(cluster, ranks), {4})
          .time;
  EXPECT_GT(once.count, 0);
  EXPECT_EQ(host_step(plan), once);
  plan.modules.back().train = config::TrainMode::kFrozen;
  EXPECT_EQ(host_step(plan), once);  // what trains has gradients
  for (config::ModulePlan& module : plan.modules) module.train = config::TrainMode::kFrozen;
  EXPECT_EQ(host_step(plan), Nanoseconds{});
}

TEST(LayerStageCosts, RecomputeTradesTimeForMemory) {
  config::Plan plan = text_plan();
  const StageCost none = small_costs(plan).cost(0, 0, kShape);
  plan.modules[0].recompute = config::RecomputePlan::kSelective;
  const StageCost selective = small_costs(plan).cost(0, 0, kShape);
  plan.modules[0].recompute = config::RecomputePlan::kAttention;
  const StageCost attention = small_costs(plan).cost(0, 0, kShape);
  plan.modules[0].recompute = config::RecomputePlan::kFull;
  const StageCost full = small_costs(plan).cost(0, 0, kShape);
  EXPECT_LT(none.input_gradient, selective.input_gradient);
  EXPECT_LT(selective.input_gradient, full.input_gradient);
  EXPECT_GT(none.kept, selective.kept);
  EXPECT_GT(selective.kept, full.kept);
  EXPECT_GT(none.kept, attention.kept);
  EXPECT_GT(attention.kept, full.kept);
  EXPECT_EQ(attention.input_gradient - none.input_gradient,
            full.input_gradient - selective.input_gradient)
      << "the halves of a layer";
  EXPECT_EQ(none.forward, full.forward);
}

TEST(LayerStageCosts, TensorParallelExposesItsAllReduces) {
  config::Plan plan = text_plan();
  plan.modules[0].mesh = {.pp = 2, .dp_shard = 2, .tp = 2};
  plan.modules[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const StageCost cut = small_costs(plan).cost(0, 0, kShape);
  const StageCost whole = small_costs(text_plan()).cost(0, 0, kShape);
  EXPECT_LT(cut.forward, whole.forward);
  EXPECT_GT(cut.forward_exposed, whole.forward_exposed);
  EXPECT_LT(cut.boundary, whole.boundary);
}

TEST(LayerStageCosts, InlineModulesRunOnTheFirstStage) {
  config::Plan plan = text_plan();
  plan.modules.push_back({.name = "vision", .placement = config::Placement::kInline});
  plan.edges = {{.from = "vision", .to = "backbone"}};
  const LayerStageCosts with = small_costs(plan);
  const LayerStageCosts without = small_costs(text_plan());
  EXPECT_GT(with.cost(0, 0, kShape).forward, without.cost(0, 0, kShape).forward);
  EXPECT_EQ(with.cost(0, 1, kShape).forward, without.cost(0, 1, kShape).forward);
  EXPECT_EQ(with.cost(0, 0, kShape).boundary, without.cost(0, 0, kShape).boundary);
}

TEST(LayerStageCosts, NamesWhatDoesNotFitTheModel) {
  EXPECT_THAT([] { (void)small_costs(text_plan(), 5); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "where: modules.backbone.stages; found: 4 layers; expected: 5 layers")));
  config::Plan plan = vision_plan();
  for (config::ModulePlan& module : plan.modules)
    if (module.name == "vision") module.name = "audio";
  plan.edges[0].from = "audio";
  EXPECT_THAT([&] { (void)small_costs(plan); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("model has no such module; where: modules.audio")));
}

MicrobatchShape only(double tokens, double patches, double frames) {
  const auto of = [](double size) {
    return PassShape{.tokens = size, .squared_tokens = size * size, .sequences = 1};
  };
  return {.backbone = of(tokens), .encoder = of(patches), .audio = of(frames)};
}

TEST(LayerStageCosts, EachEncoderWorksOnItsOwnMedia) {
  const config::Plan plan = omni_plan(false);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const LayerStageCosts costs(plan, omni_model(), small_cluster(64), pipeline);
  for (int module = 0; module < std::ssize(pipeline.modules); ++module) {
    const std::string& name = pipeline.modules[module].name;
    const auto forward = [&](double patches, double frames) {
      return costs.cost(module, 0, only(512, patches, frames)).forward;
    };
    EXPECT_EQ(costs.works_on(module, Media::kPatches), name != "audio") << name;
    EXPECT_EQ(costs.works_on(module, Media::kFrames), name != "vision") << name;
    // The projectors of both lie in the backbone's first stage.
    EXPECT_EQ(forward(1000, 500) > forward(1000, 100), name != "vision") << name;
    EXPECT_EQ(forward(1000, 500) > forward(200, 500), name != "audio") << name;
    if (name == "backbone") continue;
    EXPECT_EQ(costs.media(module), name == "audio" ? Media::kFrames : Media::kPatches);
  }
}

TEST(LayerStageCosts, FlopsAreCountedInThreeWaysAndWithoutFrozenModules) {
  config::Plan plan = text_plan();
  const auto flops_with = [&](config::RecomputePlan level) {
    plan.modules[0].recompute = level;
    return small_costs(plan).flops(0, 0, kShape);
  };
  const StageFlops none = flops_with(config::RecomputePlan::kNone);
  const StageFlops selective = flops_with(config::RecomputePlan::kSelective);
  const StageFlops attention = flops_with(config::RecomputePlan::kAttention);
  const StageFlops full = flops_with(config::RecomputePlan::kFull);
  // Model FLOPs do not count what runs again; the hardware's do: one more forward of the blocks.
  EXPECT_EQ(none.all.causal, full.all.causal);
  EXPECT_EQ(none.all.hardware, none.all.causal);
  EXPECT_LT(none.all.hardware, selective.all.hardware);
  EXPECT_LT(selective.all.hardware, full.all.hardware);
  const config::LayerShape block = small_model(4, false).modules[0].layers[1].shape;
  const LayerFlops layer = count_layer_flops(block, kShape.backbone);
  EXPECT_DOUBLE_EQ(full.all.hardware - full.all.causal, 2 * (layer.linear + layer.attention / 2));
  EXPECT_DOUBLE_EQ(selective.all.hardware - selective.all.causal, 2 * layer.mlp);
  EXPECT_DOUBLE_EQ(attention.all.hardware - attention.all.causal,
                   2 * (layer.linear - layer.mlp + layer.attention / 2));
  EXPECT_DOUBLE_EQ(full.all.full - full.all.causal, 2 * 3 * layer.attention / 2);
  EXPECT_EQ(full.frozen.causal, 0);
  plan.modules[0].train = config::TrainMode::kFrozen;
  const StageFlops frozen = flops_with(config::RecomputePlan::kFull);
  EXPECT_DOUBLE_EQ(frozen.frozen.causal, 2 * (layer.linear + layer.attention / 2));
  EXPECT_EQ(frozen.all.hardware, frozen.all.causal);  // nothing has a backward
}

TEST(LayerStageCosts, InlineEncodersOfTwoModalitiesAddUp) {
  const config::Plan plan = omni_plan(true);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  const LayerStageCosts costs(plan, omni_model(), small_cluster(64), pipeline);
  const auto flops = [&](double tokens, double patches, double frames) {
    return costs.flops(0, 0, only(tokens, patches, frames)).all.causal;
  };
  EXPECT_NEAR(flops(512, 1000, 300), flops(512, 0, 0) + flops(0, 1000, 0) + flops(0, 0, 300), 1);
  EXPECT_GT(flops(0, 0, 300), 0);
  // Layer by layer the sound's encoder is half as large again as that of images.
  EXPECT_GT(flops(0, 0, 1000), 1.4 * flops(0, 1000, 0));
}

TEST(LayerStageCosts, SoundAloneIsTheEncodersSize) {
  config::ModuleGraph model = omni_model();
  std::erase_if(model.modules, [](const auto& node) {
    return node.name == "vision" || node.name == "projector_v";
  });
  std::erase_if(model.edges, [](const auto& edge) {
    return edge.from == "vision" || edge.from == "projector_v";
  });
  config::Plan plan = omni_plan(false);
  std::erase_if(plan.modules, [&](const auto& of) { return model.find(of.name) == nullptr; });
  std::erase_if(plan.edges, [&](const auto& of) { return model.find(of.from) == nullptr; });
  const LayerStageCosts costs(plan, model, small_cluster(64), schedule::pipeline_of(plan));
  EXPECT_EQ(costs.media(0), Media::kPatches);
  EXPECT_GT(costs.cost(0, 0, only(0, 500, 0)).forward, costs.cost(0, 0, only(0, 100, 0)).forward);
}

TEST(LayerStageCosts, RefusesWhatTwoModalitiesCannotBe) {
  const config::Plan plan = omni_plan(false);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  config::ModuleGraph model = omni_model();
  model.edges.push_back({.from = "vision", .to = "projector_a"});
  EXPECT_THAT(
      [&] { LayerStageCosts(plan, model, small_cluster(64), pipeline); },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          "features of two modalities; where: modules.projector_a; found: audio and vision")));
}

}  // namespace
}  // namespace tributary::cost
