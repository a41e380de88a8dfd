#include "studies/methods/problem_of_model.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "cost/module_cost.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "studies/methods/all_methods.h"
#include "studies/methods/plan_space.h"
#include "tests/cost/small_plans.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

config::ModuleGraph model_with_vision() {
  return config::parse_graph_of_model(R"({
    "model_type": "llava_onevision",
    "vision_config": {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
                      "intermediate_size": 2048, "patch_size": 14},
    "text_config": {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16,
                    "num_key_value_heads": 4, "intermediate_size": 4096, "vocab_size": 32000}})",
                                      "config.json");
}

/// Every sample alike: 4 items of 256 patches, 1024 tokens.
ModelSetting equal_samples(std::int64_t samples) {
  return {.devices = 8,
          .batches = {std::vector<simulate::SampleSize>(static_cast<std::size_t>(samples),
                                                        {1024, 1024, 4})}};
}

/// The two modules alone on tp ranks each, as the simulator's costs see them.
config::Plan separate_plan(const std::string& tp, const std::string& train,
                           const std::string& recompute) {
  return config::parse_plan(
      R"({"format": "tributary.plan/1", "modules": {
        "vision": {"placement": "separate", "ranks": "0-)" +
          std::to_string(std::stoi(tp) - 1) + R"(", "mesh": {"tp": )" + tp + R"(}, "train": ")" +
          train + R"(", "recompute": ")" + recompute + R"("},
        "projector": {"placement": "inline", "train": "full"},
        "backbone": {"ranks": ")" +
          tp + "-" + std::to_string(2 * std::stoi(tp) - 1) + R"(", "mesh": {"tp": )" + tp +
          R"(}, "recompute": ")" + recompute + R"("}},
        "edges": [{"from": "vision", "to": "projector"}, {"from": "projector", "to": "backbone"}],
        "batch": {"global_samples": 8, "microbatches": 1, "capacity_tokens": 65536}})",
      "plan.json");
}

TEST(ProblemOfModel, TimesEqualTheCostsOfTheSimulator) {
  // Independent of the tables: the simulator's costs of a plan with one stage for each module.
  // There the projector runs with the backbone, so the sum of both modules is compared.
  const config::ModuleGraph model = model_with_vision();
  const config::Cluster cluster = cost::small_cluster(16);
  for (const int tp : {1, 2, 4}) {
    for (const char* recompute : {"none", "selective", "full"}) {
      for (const bool frozen : {false, true}) {
        SCOPED_TRACE(str("tp ", tp, ", recompute ", recompute, frozen ? ", frozen" : ""));
        const config::Plan plan =
            separate_plan(std::to_string(tp), frozen ? "frozen" : "full", recompute);
        const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
        const cost::LayerStageCosts costs(plan, model, cluster, pipeline);
        cost::MicrobatchShape shape;
        shape.backbone = {.tokens = 8192, .squared_tokens = 8192.0 * 1024, .sequences = 8};
        shape.encoder = {.tokens = 8192, .squared_tokens = 8192.0 * 256, .sequences = 32};
        double expected = 0;
        for (int module = 0; module < 2; ++module) {
          const cost::StageCost cost = costs.cost(module, 0, shape);
          expected += 1e-9 * double((cost.forward + cost.input_gradient + cost.weight_gradient +
                                     cost.forward_exposed + cost.gradient_exposed)
                                        .count);
        }
        ModelSetting setting = equal_samples(8);
        setting.frozen = frozen ? std::vector<std::string>{"vision"} : std::vector<std::string>{};
        setting.recompute = plan.find("backbone")->recompute;
        const TrainingProblem problem = problem_of_model(model, cluster, setting);
        const BatchRunner runner(problem);
        // Between the points of a table throughput is straight: half a percent. With tp the
        // simulator costs the trainer's own order of reductions, which is not that of the systems.
        const double share = tp == 1 ? 0.005 : 0.08;
        EXPECT_NEAR(runner.encoder_seconds(tp, 32) + runner.backbone_seconds(tp, 8192), expected,
                    share * expected);
      }
    }
  }
}

TEST(ProblemOfModel, LongImagesAndSamplesTakeWhatTheirAttentionDoes) {
  // Independent of the tables: the costs of passes of long samples alone and of short ones alone.
  const config::ModuleGraph model = model_with_vision();
  const config::Cluster cluster = cost::small_cluster(16);
  const simulate::SampleSize quick = {.tokens = 1024, .patches = 1024, .items = 1};
  const simulate::SampleSize slow = {.tokens = 8192, .patches = 8192, .items = 1};
  ModelSetting setting = equal_samples(64);  // long enough for the device to set the time
  std::fill_n(setting.batches[0].begin(), 48, quick);
  std::fill_n(setting.batches[0].begin() + 48, 16, slow);
  const TrainingProblem problem = problem_of_model(model, cluster, setting);
  const auto ratio = [&](const char* module) {
    const auto seconds = [&](double length) {
      constexpr std::int64_t kSamples = 64;
      return double(cost::module_cost(cluster, *model.find(module),
                                      {.tokens = kSamples * length,
                                       .squared_tokens = kSamples * length * length,
                                       .sequences = kSamples},
                                      {.recompute = setting.recompute})
                        .time()
                        .count);
    };
    return seconds(8192) / seconds(1024);
  };
  const std::vector<SampleWork>& batch = problem.batches[0];
  EXPECT_GT(ratio("vision"), 10) << "or attention is too little to tell";
  EXPECT_NEAR(batch[63].tiles / batch[0].tiles, ratio("vision"), 0.06 * ratio("vision"));
  EXPECT_NEAR(batch[63].tokens / batch[0].tokens, ratio("backbone"), 0.06 * ratio("backbone"));
  // What is long takes more and what is short less: all samples together what they did.
  double tiles = 0;
  double tokens = 0;
  for (const SampleWork& work : batch) {
    tiles += work.tiles;
    tokens += work.tokens;
  }
  EXPECT_NEAR(tiles, 64, 1e-9);
  EXPECT_NEAR(tokens, 48 * 1024 + 16 * 8192, 1e-6);
  EXPECT_EQ(batch[63].packed(), 8192);
}

TEST(ProblemOfModel, WindowsDoNotGrowWithTheImages) {
  config::ModuleGraph model = model_with_vision();
  for (config::ModuleNode& node : model.modules)
    for (config::LayerRun& run : node.layers)
      if (node.name == "vision" && run.shape.kind == config::LayerKind::kBlock)
        run.shape.window = 256;
  ModelSetting setting = equal_samples(64);
  std::fill_n(setting.batches[0].begin(), 48, simulate::SampleSize{1024, 1024, 1});
  std::fill_n(setting.batches[0].begin() + 48, 16, simulate::SampleSize{8192, 8192, 1});
  const std::vector<SampleWork> batch =
      problem_of_model(model, cost::small_cluster(16), setting).batches[0];
  EXPECT_NEAR(batch[63].tiles / batch[0].tiles, 8, 1e-6);
  EXPECT_GT(batch[63].tokens / batch[0].tokens, 9);  // the backbone has none
}

TEST(ProblemOfModel, CountsStateActivationsAndFeatures) {
  const config::ModuleGraph model = model_with_vision();
  const TrainingProblem problem =
      problem_of_model(model, cost::small_cluster(16), equal_samples(16));
  std::int64_t backbone = 0;
  for (const config::LayerRun& run : model.find("backbone")->layers)
    backbone += run.layers * cost::count_layer_parameters(run.shape);
  const ModuleCosts& costs = problem.costs.backbone;
  EXPECT_EQ(costs.layers, 8);
  EXPECT_EQ(problem.costs.encoder.layers, 6);
  ASSERT_EQ(costs.degrees.size(), 3U);  // tp 1, 2, 4: four devices a node
  EXPECT_NEAR(costs.degrees[0].state_bytes, 18.0 * double(backbone), 1e3);
  EXPECT_NEAR(costs.degrees[2].state_bytes, 4.5 * double(backbone), 1e3);
  // Full recompute keeps the input of a layer, in two bytes.
  EXPECT_NEAR(costs.degrees[0].activation_bytes, 2.0 * 1024, 1);
  EXPECT_NEAR(costs.gradient_share, 2.0 / 18, 1e-6);
  EXPECT_NEAR(costs.parameter_share, 2.0 / 18, 1e-6);
  EXPECT_DOUBLE_EQ(costs.sample_shape, 1024);
  EXPECT_DOUBLE_EQ(problem.costs.encoder.sample_shape, 4);
  EXPECT_DOUBLE_EQ(problem.feature_bytes, 2.0 * 256 * 1024);
  EXPECT_DOUBLE_EQ(problem.bytes_per_second, 10e9);
  EXPECT_EQ(problem.devices_per_node, 4);
  EXPECT_GT(problem.node_bytes_per_second, 10e9);
  EXPECT_EQ(problem.costs.devices, 8);
  EXPECT_DOUBLE_EQ(problem.costs.memory_bytes, double(std::int64_t{1} << 34));
}

TEST(ProblemOfModel, AFrozenEncoderHasForwardAlone) {
  ModelSetting setting = equal_samples(16);
  setting.frozen = {"vision", "projector"};
  const ModuleCosts encoder =
      problem_of_model(model_with_vision(), cost::small_cluster(16), setting).costs.encoder;
  EXPECT_DOUBLE_EQ(encoder.forward_share, 1);
  EXPECT_DOUBLE_EQ(encoder.gradient_share, 0);
  EXPECT_DOUBLE_EQ(encoder.parameter_share, 1);
  const ModuleCosts trained =
      problem_of_model(model_with_vision(), cost::small_cluster(16), equal_samples(16))
          .costs.encoder;
  EXPECT_NEAR(trained.degrees[0].state_bytes, 9 * encoder.degrees[0].state_bytes, 1e3);
}

TEST(ProblemOfModel, PadsEncoderHeadsAndLeavesOutDegreesOfTheBackbone) {
  config::ModuleGraph model = model_with_vision();
  for (config::ModuleNode& node : model.modules) {
    for (config::LayerRun& run : node.layers) {
      if (run.shape.kind != config::LayerKind::kBlock) continue;
      if (node.name == "vision") run.shape.heads = run.shape.kv_heads = 7;
      if (node.name == "backbone") run.shape.kv_heads = 2;
    }
  }
  const TrainingProblem problem =
      problem_of_model(model, cost::small_cluster(16), equal_samples(16));
  EXPECT_EQ(problem.costs.encoder.degrees.size(), 3U);
  EXPECT_EQ(problem.costs.backbone.degrees.size(), 2U);
}

TEST(ProblemOfModel, ServesEveryPublishedSearch) {
  ModelSetting setting = {.devices = 8, .batches = draw_mixture_batches(2, 32, 1)};
  setting.memory = Bytes{std::int64_t{80} << 30};
  const TrainingProblem problem =
      problem_of_model(model_with_vision(), cost::small_cluster(16), setting);
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    SCOPED_TRACE(baseline.name);
    const PipelineAnswer answer = baseline.solve(problem);
    EXPECT_EQ(answer.certificate.status, plan::Status::kFeasible) << answer.certificate.limit;
    EXPECT_GE(answer.certificate.value, answer.certificate.lower_bound);
  }
}

/// Beside vision a tower of sound with its own projector.
config::ModuleGraph model_that_hears() {
  config::ModuleGraph model = model_with_vision();
  config::ModuleNode audio = *model.find("vision");
  audio.name = "audio";
  for (config::LayerRun& run : audio.layers)
    if (run.shape.kind != config::LayerKind::kBlock)
      run.shape.kind = config::LayerKind::kConvolution;
  config::ModuleNode projector = *model.find("projector");
  projector.name = "audio_projector";
  model.modules.insert(model.modules.begin(), {audio, projector});
  model.edges.push_back({"audio", "audio_projector"});
  model.edges.push_back({"audio_projector", "backbone"});
  return model;
}

/// Half of the samples with images alone, half with sound alone.
ModelSetting images_or_sound(std::int64_t samples) {
  ModelSetting setting = equal_samples(samples);
  for (std::size_t i = 0; i < setting.batches[0].size(); i += 2)
    setting.batches[0][i] = {.tokens = 1024, .frames = 3000, .clips = 2};
  return setting;
}

TEST(ProblemOfModel, SeveralEncodersAreOneEndToEnd) {
  const config::Cluster cluster = cost::small_cluster(16);
  const ModelSetting both = images_or_sound(8);
  const TrainingProblem problem = problem_of_model(model_that_hears(), cluster, both);
  EXPECT_EQ(problem.costs.encoder.name, "audio + vision");
  EXPECT_EQ(problem.costs.encoder.layers, 12);
  // Each alone on its own samples.
  ModelSetting seen = equal_samples(4);
  ModelSetting heard = equal_samples(4);
  heard.batches[0].assign(4, {.tokens = 1024, .patches = 3000, .items = 2});
  config::ModuleGraph ear = model_that_hears();
  std::erase_if(ear.modules, [](const config::ModuleNode& node) {
    return node.name == "vision" || node.name == "projector";
  });
  const TrainingProblem vision = problem_of_model(model_with_vision(), cluster, seen);
  const TrainingProblem audio = problem_of_model(ear, cluster, heard);
  const auto total = [](const TrainingProblem& of) {
    return BatchRunner(of).encoder_seconds(1, [&] {
      double tiles = 0;
      for (const SampleWork& work : of.batches[0]) tiles += work.tiles;
      return tiles;
    }());
  };
  EXPECT_NEAR(total(problem), total(vision) + total(audio), 0.005 * total(problem));
  EXPECT_NEAR(
      problem.costs.encoder.degrees[0].state_bytes,
      vision.costs.encoder.degrees[0].state_bytes + audio.costs.encoder.degrees[0].state_bytes,
      1e3);
  // By work: a sample of sound is to one of images as their FLOPs are.
  EXPECT_NEAR(problem.batches[0][0].tiles / problem.batches[0][1].tiles,
              audio.costs.encoder.sample_flops / vision.costs.encoder.sample_flops, 1e-9);
  for (const PipelineBaseline& baseline : pipeline_baselines())
    EXPECT_EQ(baseline.solve(problem).certificate.status, plan::Status::kFeasible) << baseline.name;
}

TEST(ProblemOfModel, RefusesAnEncoderWithoutWork) {
  const auto refuses = [](const ModelSetting& setting, const char* words) {
    EXPECT_THAT(
        [&] { (void)problem_of_model(model_that_hears(), cost::small_cluster(16), setting); },
        ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses(equal_samples(8), "where: module audio; found: 0 positions of sound");
  ModelSetting heard = equal_samples(8);
  heard.batches[0].assign(8, {.tokens = 1024, .frames = 3000, .clips = 2});
  refuses(heard, "where: module vision; found: 0 patches");
}

TEST(ProblemOfModel, NamesWhatCannotBeUsed) {
  const auto refuses = [](auto change, const char* words) {
    config::ModuleGraph model = model_with_vision();
    ModelSetting setting = equal_samples(8);
    change(model, setting);
    EXPECT_THAT([&] { (void)problem_of_model(model, cost::small_cluster(16), setting); },
                ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](auto&, ModelSetting& s) { s.devices = 17; }, "found: 17 devices; expected: 1 to 16");
  refuses([](auto&, ModelSetting& s) { s.frozen = {"audio"}; }, "found: audio");
  refuses([](auto&, ModelSetting& s) { s.batches.clear(); }, "no batch to judge plans by");
  refuses(
      [](auto&, ModelSetting& s) {
        s.batches.push_back({{1, 1, 1}});
      },
      "found: 8 and 1 samples");
  refuses([](auto&, ModelSetting& s) { s.batches = {{{10, 0, 0}}}; }, "nothing to do");
  refuses([](config::ModuleGraph& m, auto&) { m.modules[0].name = "llm"; }, "has no backbone");
  refuses(
      [](config::ModuleGraph& m, auto&) {
        std::erase_if(m.modules, [](const auto& node) { return node.name == "vision"; });
      },
      "found: 0 encoders");
}

}  // namespace
}  // namespace tributary::studies
