#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cost/stages/stage_costs.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/cost/small_plans.h"

namespace tributary::cost {
namespace {

constexpr std::int64_t kMapWidth = 1024;
constexpr std::int64_t kAdapterRank = 8;
constexpr MicrobatchShape kTextMicrobatch{
    .backbone = {.tokens = 2048, .squared_tokens = 2048.0 * 2048}, .encoder = {}};

/// Adapters beside the query and the output of every block of small_model.
config::ModuleGraph adapted_model(bool has_magnitudes = false) {
  config::ModuleGraph model = small_model(4, /*has_vision=*/false);
  for (config::LayerRun& run : model.modules[0].layers)
    if (run.shape.kind == config::LayerKind::kBlock)
      run.shape.adapter = {.rank = kAdapterRank,
                           .maps = 2,
                           .whole = 2 * kMapWidth,
                           .cut = 2 * kMapWidth,
                           .weights = 2 * kMapWidth * kMapWidth,
                           .magnitudes = has_magnitudes ? 2 * kMapWidth : 0};
  return model;
}

config::Plan on_one_rank(config::TrainMode mode, std::int64_t tp = 1) {
  config::Plan plan = text_plan();
  plan.modules[0].mesh = {.tp = tp};
  plan.modules[0].ranks.resize(static_cast<std::size_t>(tp));
  plan.modules[0].stages = {{.embed = true, .first = 0, .layers = 4, .head = true}};
  plan.modules[0].train = mode;
  return plan;
}

LayerStageCosts adapted_costs(const config::Plan& plan, const config::ModuleGraph& model) {
  return {plan, model, small_cluster(64), schedule::pipeline_of(plan)};
}

TEST(AdapterStages, GradientsAndStateAreThoseOfTheAdapters) {
  const config::Plan plan = on_one_rank(config::TrainMode::kLora);
  const StageState state = adapted_costs(plan, adapted_model()).state(0, 0);
  const std::int64_t values = 4 * kAdapterRank * 4 * kMapWidth;  // of four blocks
  EXPECT_EQ(state.gradients.count, 4 * values);
  EXPECT_EQ(state.optimizer.count, 12 * values);
  const config::Plan full = on_one_rank(config::TrainMode::kFull);
  EXPECT_EQ(state.parameters - adapted_costs(full, small_model(4, false)).state(0, 0).parameters,
            Bytes{2 * values});
  // The side that tp cuts is half as long on each of two ranks.
  const config::Plan cut = on_one_rank(config::TrainMode::kLora, /*tp=*/2);
  EXPECT_EQ(adapted_costs(cut, adapted_model()).state(0, 0).gradients.count, 4 * values * 3 / 4);
}

TEST(AdapterStages, HaveNoWeightGradientsOfTheFrozenMaps) {
  const StageCost adapted = adapted_costs(on_one_rank(config::TrainMode::kLora), adapted_model())
                                .cost(0, 0, kTextMicrobatch);
  const StageCost full = adapted_costs(on_one_rank(config::TrainMode::kFull), small_model(4, false))
                             .cost(0, 0, kTextMicrobatch);
  EXPECT_LT(2 * adapted.weight_gradient.count, full.weight_gradient.count);
  EXPECT_GT(adapted.weight_gradient.count, 0);
  EXPECT_GT(adapted.forward, full.forward);
  EXPECT_GT(adapted.input_gradient, full.input_gradient);
  const StageCost with_magnitudes =
      adapted_costs(on_one_rank(config::TrainMode::kLora), adapted_model(true))
          .cost(0, 0, kTextMicrobatch);
  EXPECT_GT(with_magnitudes.forward, adapted.forward);
  EXPECT_GT(with_magnitudes.weight_gradient, adapted.weight_gradient);
}

TEST(AdapterStages, FlopsAreThreeTimesThoseOfAdaptersAndTwiceThoseOfTheRest) {
  const auto flops = [](config::TrainMode mode, const config::ModuleGraph& model) {
    return adapted_costs(on_one_rank(mode), model).flops(0, 0, kTextMicrobatch).all.causal;
  };
  const double frozen = flops(config::TrainMode::kFrozen, small_model(4, false));
  const double adapted = flops(config::TrainMode::kLora, adapted_model());
  const double full = flops(config::TrainMode::kFull, small_model(4, false));
  const double tokens = kTextMicrobatch.backbone.tokens;
  const double attention = 4 * 2 * 2 * tokens * tokens * kMapWidth / 2;
  const double linear = frozen - attention;
  const double of_adapters = 3 * 2 * tokens * 4 * double{kAdapterRank} * 4 * kMapWidth;
  EXPECT_NEAR(adapted, 2 * linear + 3 * attention + of_adapters, 1e-9 * adapted);
  EXPECT_NEAR(full, 3 * (linear + attention), 1e-9 * full);
}

TEST(AdapterStages, AModuleWithoutAdaptersIsRefused) {
  const config::Plan plan = on_one_rank(config::TrainMode::kLora);
  EXPECT_THAT([&] { (void)adapted_costs(plan, small_model(4, false)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "module of the plan has no adapter; where: modules.backbone")));
}

}  // namespace
}  // namespace tributary::cost
