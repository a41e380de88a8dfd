#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/cost/stages/stage_case.h"

namespace tributary::cost {
namespace {

void expect_refused(const config::Plan& plan, const config::ModuleGraph& model,
                    const std::string& words) {
  EXPECT_THAT([&] { (void)costs_of(plan, model); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
}

TEST(RefusedPlans, KeysThatHaveNoCostsAreNotDropped) {
  const config::ModuleGraph model = model_of(block_shape(), 4);
  config::Plan plan = plan_of({});
  plan.modules[0].offload = config::Offload::kOptimizer;
  expect_refused(plan, model, "where: modules.backbone.offload; found: optimizer");
  plan.modules[0].offload = config::Offload::kParameters;
  expect_refused(plan, model, "where: modules.backbone.offload; found: parameters");
  plan = plan_of({});
  plan.modules[0].train = config::TrainMode::kLora;
  expect_refused(plan, model, "where: modules.backbone.train; found: lora");
}

TEST(RefusedPlans, EveryModuleOfTheModelHasAPlace) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  model.modules.push_back({.name = "vision", .layers = {{.shape = block_shape(), .layers = 1}}});
  model.edges = {{.from = "vision", .to = "backbone"}};
  expect_refused(plan_of({}), model, "module of the model has no place; where: modules.vision");
}

TEST(RefusedPlans, SamplesHaveSizesOfImagesAndOfSound) {
  config::ModuleGraph model = model_of(block_shape(), 4);
  config::Plan plan = plan_of({});
  const auto add = [&](const std::string& name, config::LayerKind kind) {
    model.modules.push_back(
        {.name = name,
         .layers = {{.shape = {.kind = kind, .input_width = 64, .width = 1024}, .layers = 1}}});
    model.edges.push_back({.from = name, .to = "backbone"});
    plan.modules.push_back({.name = name, .placement = config::Placement::kInline});
  };
  add("vision", config::LayerKind::kPatchEmbedding);
  add("vision_low", config::LayerKind::kPatchEmbedding);
  EXPECT_NO_THROW((void)costs_of(plan, model));
  add("audio", config::LayerKind::kConvolution);
  EXPECT_NO_THROW((void)costs_of(plan, model));
  add("touch", config::LayerKind::kEmbedding);
  expect_refused(plan, model, "where: modules.touch; found: vision_low and touch");
}

TEST(RefusedPlans, DegreesAreThoseThatTheLayersCanBeCutInto) {
  const config::ModuleGraph model = model_of(block_shape(), 4);
  expect_refused(plan_of({.tp = 3}), model, "where: modules.backbone.mesh.tp = 3; found: 16 heads");
  expect_refused(plan_of({.ulysses = 32}), model,
                 "where: modules.backbone.mesh.ulysses = 32; found: 16 heads on each of 1 tp");
  expect_refused(plan_of({.ulysses = 8, .tp = 4}), model,
                 "where: modules.backbone.mesh.ulysses = 8; found: 4 heads on each of 4 tp");
  expect_refused(plan_of({.dp_shard = 2, .ep = 2}), model,
                 "where: modules.backbone.mesh.ep = 2; found: no experts");
  const config::ModuleGraph mixture = model_of(mixture_shape(6), 4);
  expect_refused(plan_of({.dp_shard = 4, .ep = 4}), mixture, "mesh.ep = 4; found: 6 experts");
  expect_refused(plan_of({.dp_shard = 4, .ep = 3}), mixture,
                 "mesh.ep = 3; found: 4 ranks of dp_shard, cp and ulysses");
}

TEST(RefusedPlans, AClusterThatIsTooSmallIsNamed) {
  expect_refused(
      plan_of({.dp_shard = 65}), model_of(block_shape(), 4),
      "where: modules.backbone.ranks; found: rank 64; expected: below 64, the devices of "
      "cluster one node");
}

}  // namespace
}  // namespace tributary::cost
