#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "studies/compare/compare.h"
#include "studies/methods/sharing/sharing_baselines.h"
#include "studies/methods/sharing/sharing_of_model.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;

config::Study read_devices() {
  return config::read_study(TRIB_SOURCE_DIR "/configs/studies/mosaic_devices.yaml");
}

TEST(CompareSharing, GivesWhatTheMethodsGiveDirectly) {
  const config::Study study = read_devices();
  const Comparison comparison = compare(study);
  for (std::size_t i = 0; i < study.settings.size(); ++i) {
    const config::StudySetting& setting = study.settings[i];
    const plan::SharingProblem problem = sharing_of_model(setting.model, setting.cluster,
                                                          {.devices = setting.devices,
                                                           .global_samples = setting.global_samples,
                                                           .tokens = setting.module_tokens});
    for (const SharingBaseline& baseline : sharing_baselines()) {
      EXPECT_DOUBLE_EQ(comparison.settings[i].find(baseline.name)->step_s,
                       1e-9 * double(baseline.solve(problem).certificate.value.count));
    }
  }
}

TEST(CompareSharing, SaysHowOccupiedDevicesAre) {
  config::Study study = read_devices();
  study.settings.resize(1);
  study.figures.clear();
  study.orders.clear();
  const SettingResult setting = compare(study).settings[0];
  for (const MethodResult& method : setting.methods) {
    SCOPED_TRACE(method.method);
    ASSERT_TRUE(method.occupancy && method.min_occupancy);
    EXPECT_GT(*method.min_occupancy, 0);
    EXPECT_LE(*method.min_occupancy, *method.occupancy + 1e-12);
    EXPECT_LT(*method.occupancy, 1);
  }
  // One after another on all devices there is no device that has more than another one.
  const MethodResult& temporal = *setting.find("megatron_temporal");
  EXPECT_NEAR(*temporal.occupancy, *temporal.min_occupancy, 1e-12);
  EXPECT_THAT(setting.find("mosaic")->plan, testing::ContainsRegex(" on [0-9]+ x [0-9]0 %"));
  EXPECT_THAT(temporal.plan, testing::Not(HasSubstr("%")));
}

/// A setting where methods x and y have such occupancies, and z none.
SettingResult occupied(const char* name, double of_x, double of_y) {
  return {.name = name,
          .methods = {{.method = "x", .step_s = 1, .occupancy = of_x, .min_occupancy = of_x / 2},
                      {.method = "y", .step_s = 1, .occupancy = of_y, .min_occupancy = of_y / 4},
                      {.method = "z", .step_s = 1}}};
}

TEST(JudgeFigures, TakesTheRatioOfMeanOccupancies) {
  using enum config::FigureQuantity;
  config::Study study;
  study.figures = {{.quantity = kOccupancy, .setting = "a", .method = "x"},
                   {.quantity = kOccupancy, .method = "x", .settings = {"a", "b"}},
                   {.quantity = kOccupancy, .method = "x", .against = "y", .settings = {"a", "b"}},
                   {.quantity = kMinOccupancy, .setting = "a", .method = "x", .against = "y"},
                   {.quantity = kOccupancy, .setting = "a", .method = "x", .against_setting = "b"},
                   {.quantity = kOccupancy, .setting = "a", .method = "x", .against = "z"},
                   {.quantity = kOccupancy, .setting = "a", .method = "z"}};
  for (config::PublishedFigure& figure : study.figures) figure.min = figure.max = 1;
  using config::RankedBy;
  study.orders = {{"", RankedBy::kOccupancy, {{"b", "x", ""}, {"b", "y", ""}}},
                  {"", RankedBy::kOccupancy, {{"a", "x", ""}, {"a", "y", ""}}},
                  {"", RankedBy::kOccupancy, {{"b", "x", ""}, {"b", "z", ""}}}};
  Comparison comparison;
  comparison.settings = {occupied("a", 0.2, 0.4), occupied("b", 0.8, 0.1)};
  judge_figures(study, comparison);
  const double expected[] = {0.2, 0.5, 1.0 / 0.5, 0.1 / 0.1, 0.2 / 0.8};
  for (std::size_t i = 0; i < std::size(expected); ++i)
    EXPECT_NEAR(comparison.figures[i].found.value_or(0), expected[i], 1e-12) << i;
  EXPECT_FALSE(comparison.figures[5].found.has_value());
  EXPECT_FALSE(comparison.figures[6].found.has_value());
  EXPECT_TRUE(comparison.orders[0].holds);
  EXPECT_FALSE(comparison.orders[1].holds);
  EXPECT_FALSE(comparison.orders[2].holds);  // not counted of z
}

TEST(CompareSharing, RecomputesLayersWhereAMethodHasNoPlanOtherwise) {
  config::Study study = read_devices();
  study.settings.resize(1);
  study.figures.clear();
  study.orders.clear();
  config::StudySetting& setting = study.settings[0];
  SharingSetting sharing{.devices = setting.devices,
                         .global_samples = setting.global_samples,
                         .tokens = setting.module_tokens};
  // What the modules take one after another on all devices.
  const auto needed = [&](config::RecomputePlan level) {
    sharing.recompute = level;
    Bytes sum;
    for (const plan::SharedModule& module :
         sharing_of_model(setting.model, setting.cluster, sharing).modules)
      sum += level == config::RecomputePlan::kFull ? module.memory.back() : module.resident.back();
    return sum;
  };
  setting.memory = needed(config::RecomputePlan::kFull);
  ASSERT_GT(needed(config::RecomputePlan::kNone), *setting.memory);
  const auto temporal = [&] { return *compare(study).settings[0].find("megatron_temporal"); };
  const MethodResult found = temporal();
  EXPECT_GT(found.step_s, 0);
  EXPECT_THAT(found.plan, HasSubstr("layers recomputed"));
  setting.recompute = config::RecomputePlan::kNone;
  const MethodResult refused = temporal();
  EXPECT_EQ(refused.step_s, 0);
  EXPECT_THAT(refused.certificate.limit, HasSubstr("memory: "));
  setting.recompute = config::RecomputePlan::kFull;
  EXPECT_DOUBLE_EQ(temporal().step_s, found.step_s);
}

}  // namespace
}  // namespace tributary::studies
