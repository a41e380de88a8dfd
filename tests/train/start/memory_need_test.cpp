#include "train/start/memory_need.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/plan/plan.h"
#include "config/run/adapter_layers.h"
#include "core/error.h"
#include "cost/stages/stage_costs.h"
#include "parallel/unit_chain.h"
#include "schedule/pipeline/plan_pipeline.h"
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

TEST(CountMemory, NamesTheFeaturesOfEncodersApart) {
  EXPECT_TRUE(need_of({}).features.empty());
  model::ModelLayout layout;
  layout.encoders["vision"] = {};
  EXPECT_EQ(count_memory({}, three_billion(), layout).features.at("vision").count, 4 * 1280);
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

std::string folder_of(const std::string& name) {
  return str(TRIB_SOURCE_DIR, "/configs/models/", name);
}

/// What a rank alone keeps of a run, as the planner counts it.
cost::StageState planned_state(const config::RunConfig& run) {
  const config::ModelConfig model = config::read_model_config(run.model.path);
  config::Plan plan = config::expand_plan({}, {}, run, model);
  for (config::ModulePlan& module : plan.modules)  // as plan_of_run says of adapters
    if (run.model.has_adapters() && std::ranges::count(run.model.freeze, module.name) == 0)
      module.train = config::TrainMode::kLora;
  const config::ModuleGraph graph = config::add_adapters(
      config::read_graph_of_model(run.model.path), run.model, model::list_linear_maps(model));
  config::Cluster cluster;
  cluster.devices = 1;
  cluster.levels = {{.name = "one", .ranks = 1, .bytes_per_s = 1e9}};
  return cost::LayerStageCosts(plan, graph, cluster, schedule::pipeline_of(plan)).state(0, 0);
}

TEST(CountMemory, IsThatOfThePlannerForEveryOptimizer) {
  for (const char* name : {"llama_3_1_8b", "qwen2_5_vl_3b", "qwen3_vl_2b"})
    for (const config::OptimizerKind kind :
         {config::OptimizerKind::kAdamW, config::OptimizerKind::kMuon,
          config::OptimizerKind::kAdamW8bit})
      for (const double decay : {0.0, 0.999}) {
        SCOPED_TRACE(str(name, ", optimizer ", static_cast<int>(kind), ", decay ", decay));
        config::RunConfig run;
        run.model.path = folder_of(name);
        run.model.dtype = config::Dtype::kBfloat16;
        run.optimizer.kind = kind;
        run.optimizer.ema_decay = decay;
        const MemoryNeed need =
            count_memory(run.model, config::read_model_config(run.model.path), {}, run.optimizer);
        const cost::StageState state = planned_state(run);
        const auto expect_near = [](Bytes planned, Bytes counted) {  // biases are not planned
          EXPECT_NEAR(double(planned.count), double(counted.count), 2e-3 * double(counted.count));
        };
        expect_near(state.parameters, need.parameters);
        expect_near(state.gradients, need.gradients);
        expect_near(state.optimizer, need.moments + need.averages + need.masters);
      }
}

TEST(CountMemory, IsThatOfThePlannerForAdapters) {
  using config::AdapterKind;
  for (const auto& folder :
       std::filesystem::directory_iterator(str(TRIB_SOURCE_DIR, "/configs/models")))
    for (const config::AdapterSection& adapter :
         {config::AdapterSection{.kind = AdapterKind::kLora, .rank = 16},
          config::AdapterSection{.kind = AdapterKind::kDora, .targets = {"q_proj", "qkv", "fc2"}},
          config::AdapterSection{.kind = AdapterKind::kLora, .targets = {"*layers.0.mlp*"}}}) {
      SCOPED_TRACE(str(folder.path(), ", ", config::describe_adapter(adapter)));
      config::RunConfig run;
      run.model.path = folder.path();
      run.model.dtype = config::Dtype::kBfloat16;
      run.model.adapter = adapter;
      const config::ModelConfig model = config::read_model_config(run.model.path);
      const auto maps = model::list_linear_maps(model);
      std::erase_if(run.model.adapter.targets, [&](const std::string& target) {
        config::ModelSection alone = run.model;
        alone.adapter.targets = {target};
        return std::ranges::none_of(maps, [&](const config::LinearMap& map) {
          return config::has_adapter(alone, map.module, map.name);
        });
      });
      run.model = config::freeze_without_adapter(run.model, maps);
      const MemoryNeed need =
          count_memory(run.model, model, model::one_rank_layout(run.model), run.optimizer);
      const cost::StageState state = planned_state(run);
      EXPECT_EQ(state.gradients.count, 4 * need.count_trained());
      EXPECT_EQ(state.optimizer, need.moments + need.masters);
    }
}

TEST(CountMemory, AReferenceIsWhatTrainsOnceMore) {
  config::ModelSection section;
  section.freeze = {"vision"};
  const auto count = [&](config::Dtype dtype) {
    section.dtype = dtype;
    return count_memory(section, three_billion(), model::ModelLayout(), {.groups = {}},
                        /*keeps_start=*/true);
  };
  const MemoryNeed wide = count(config::Dtype::kFloat32);
  EXPECT_EQ(wide.reference.count, 4 * wide.count_trained());
  EXPECT_EQ(wide.total().count, 4 * wide.count_parameters() + 16 * wide.count_trained());
  EXPECT_EQ(count(config::Dtype::kBfloat16).reference.count, 2 * wide.count_trained());
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
