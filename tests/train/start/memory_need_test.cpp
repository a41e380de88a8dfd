#include "train/start/memory_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/unit_chain.h"
#include "train/start/start_block.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// Qwen2.5-VL-3B, by its config.json.
config::ModelConfig three_billion() {
  config::ModelConfig model;
  model.family = config::ModelFamily::kQwen2_5Vl;
  config::BackboneConfig& backbone = model.backbone;
  backbone.layers = 36;
  backbone.width = 2048;
  backbone.heads = 16;
  backbone.kv_heads = 2;
  backbone.head_width = 128;
  backbone.mlp_width = 11008;
  backbone.vocab = 151936;
  backbone.max_positions = 128000;
  backbone.rope_theta = 1e6;
  backbone.norm_epsilon = 1e-6;
  backbone.qkv_bias = true;
  backbone.tied_head = true;
  backbone.mrope_section = {16, 24, 24};
  config::VisionConfig& vision = model.vision.emplace();
  vision.layers = 32;
  vision.width = 1280;
  vision.heads = 16;
  vision.mlp_width = 3420;
  vision.output_width = 2048;
  vision.full_attention_layers = {7, 15, 23, 31};
  return model;
}

MemoryNeed need_of(const config::ModelSection& section, const parallel::Layout& layout = {}) {
  return count_memory(section, three_billion(), layout);
}

TEST(CountMemory, KeepsSixteenBytesOfATrainedParameterInFloat32) {
  const MemoryNeed need = need_of({});
  EXPECT_EQ(need.count_parameters(), 3'754'622'976);  // of the released weights
  EXPECT_EQ(need.count_parameters(), config::count_parameters(three_billion()));
  EXPECT_EQ(need.total().count, 16 * need.count_parameters());
  EXPECT_EQ(need.moments.count, 8 * need.count_parameters());
}

TEST(CountMemory, OfARunWithAdaptersOnlyTheseTrain) {
  config::ModelSection section;
  section.adapter = {.kind = config::AdapterKind::kLora, .rank = 16, .targets = {"q_proj"}};
  section.freeze = {"vision", "projector"};
  const MemoryNeed need =
      count_memory(section, three_billion(), model::one_rank_layout(section), {.groups = {}});
  const std::int64_t trained = std::int64_t{36} * 16 * (2048 + 2048);
  EXPECT_EQ(need.count_trained(), trained);
  EXPECT_EQ(need.count_parameters(), 3'754'622'976 + trained);
  EXPECT_EQ(need.gradients.count, 4 * trained);
  EXPECT_EQ(need.moments.count, 8 * trained);
  EXPECT_FALSE(need.modules.front().trains());
  EXPECT_TRUE(need.modules.back().trains());
}

TEST(CountMemory, MomentsAreThoseOfTheOptimizer) {
  config::OptimizerSection muon{.kind = config::OptimizerKind::kMuon, .groups = {}};
  config::OptimizerSection narrow{
      .kind = config::OptimizerKind::kAdamW8bit, .ema_decay = 0.9, .groups = {}};
  const MemoryNeed plain = need_of({});
  const auto count = [](const config::OptimizerSection& optimizer) {
    return count_memory({}, three_billion(), model::ModelLayout(), optimizer);
  };
  EXPECT_LT(count(muon).moments.count, 0.6 * static_cast<double>(plain.moments.count));
  EXPECT_LT(count(narrow).moments.count, 0.26 * static_cast<double>(plain.moments.count));
  EXPECT_EQ(count(narrow).averages.count, 4 * plain.count_parameters());
}

TEST(CountMemory, OfAFrozenModuleThereAreParametersAlone) {
  config::ModelSection section;
  section.freeze = {"vision", "backbone"};
  const MemoryNeed need = need_of(section);
  ASSERT_EQ(need.modules.size(), 3U);
  EXPECT_FALSE(need.modules.front().trains());
  const std::int64_t trained = need.count_trained();
  EXPECT_EQ(trained, need.modules[1].parameters);
  EXPECT_EQ(need.modules[1].name, "projector");
  EXPECT_EQ(need.total().count, 4 * need.count_parameters() + 12 * trained);
}

TEST(CountMemory, ABfloat16ModelHasFloat32Masters) {
  parallel::Layout layout;
  layout.chain =
      std::make_shared<parallel::UnitChain>(parallel::ChainOptions{.keep_optimizer_on_host = true});
  config::ModelSection section;
  section.dtype = config::Dtype::kBfloat16;
  const MemoryNeed need = need_of(section, layout);
  const std::int64_t count = need.count_parameters();
  EXPECT_EQ(need.parameters.count, 2 * count);
  EXPECT_EQ(need.gradients.count, 4 * count);  // reduced in float32
  EXPECT_EQ(need.masters.count, 4 * count);
  EXPECT_EQ(need.on_host.count, 12 * count);
}

TEST(TightestPlace, SharesTheMachineAndNotTheLimitOfAProcess) {
  const MemoryNeed need{.parameters = {4 * kGiB}, .on_host = {kGiB}};
  const std::vector<MemoryLimit> limits{
      {.name = "free memory of the machine", .left = {12 * kGiB}},
      {.name = "left of ulimit -v", .left = {5 * kGiB}, .of_process = true}};
  EXPECT_EQ(tightest_place(need, {}, limits, 1).name, "left of ulimit -v");
  const MemoryPlace shared = tightest_place(need, {}, limits, 4);
  EXPECT_EQ(shared.left.count, 3 * kGiB);
  EXPECT_THAT(shared.name, testing::HasSubstr("for 4 ranks"));
  const MemoryPlace device = tightest_place(need, {3 * kGiB}, limits, 1);
  EXPECT_EQ(device.name, "free memory of the device");
  EXPECT_EQ(device.needed.count, 3 * kGiB);
}

TEST(RequireMemory, RefusesWithTheSumAndWhatThereIs) {
  const MemoryNeed need = need_of({});
  try {
    require_memory(need, {need.total(), {16 * kGiB}, "left of ulimit -v"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kResource);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("parameters 14.0 GiB + gradients 14.0 GiB + "
                                                  "moments 28.0 GiB = 55.9 GiB"),
                               testing::HasSubstr("at most 16.0 GiB, left of ulimit -v"),
                               testing::HasSubstr("over 4 times the memory")));
  }
  EXPECT_NO_THROW(require_memory(need, {need.total(), need.total(), "free memory"}));
}

TEST(DescribeShortage, WarnsWhereOnlyTheActivationsDoNotFit) {
  const MemoryNeed need{.parameters = {4 * kGiB}, .activations = {2 * kGiB}};
  EXPECT_EQ(describe_shortage(need, {need.total(), {6 * kGiB}, "free memory"}), "");
  EXPECT_THAT(describe_shortage(need, {need.total(), {5 * kGiB}, "free memory"}),
              testing::HasSubstr("6.0 GiB with the activations"));
}

TEST(DescribeCount, SetsThousandsApart) {
  EXPECT_EQ(describe_count(0), "0");
  EXPECT_EQ(describe_count(999), "999");
  EXPECT_EQ(describe_count(1'162'944), "1,162,944");
}

}  // namespace
}  // namespace tributary::train
