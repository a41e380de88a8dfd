#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/baseline/sharing/sharing_baselines.h"
#include "plan/baseline/sharing/sharing_of_model.h"
#include "plan/compare/compare.h"

namespace tributary::plan {
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
    const SharingProblem problem = sharing_of_model(setting.model, setting.cluster,
                                                    {.devices = setting.devices,
                                                     .global_samples = setting.global_samples,
                                                     .tokens = setting.module_tokens});
    for (const SharingBaseline& baseline : sharing_baselines()) {
      EXPECT_DOUBLE_EQ(comparison.settings[i].find(baseline.name)->step_s,
                       1e-9 * double(baseline.solve(problem).certificate.value.count));
    }
  }
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
    for (const SharedModule& module :
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
}  // namespace tributary::plan
