#include "config/run/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/plan/plan.h"
#include "config/run/adapter_layers.h"
#include "core/error.h"

namespace tributary::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<LinearMap>& maps() {
  static const std::vector<LinearMap> maps{{"vision", "visual.blocks.0.attn.qkv", 10, 30},
                                           {"projector", "visual.merger.mlp.0", 40, 40},
                                           {"backbone", "model.layers.0.self_attn.q_proj", 20, 20},
                                           {"backbone", "model.layers.1.self_attn.q_proj", 20, 20},
                                           {"backbone", "model.layers.1.mlp.down_proj", 60, 20}};
  return maps;
}

ModelSection with_targets(std::vector<std::string> targets) {
  ModelSection model;
  model.adapter = {.kind = AdapterKind::kLora, .targets = std::move(targets)};
  return model;
}

std::vector<std::string> targeted(const ModelSection& model) {
  std::vector<std::string> names;
  for (const LinearMap& map : maps())
    if (has_adapter(model, map.module, map.name)) names.push_back(map.name);
  return names;
}

TEST(Adapter, TargetsAreNamesTheirEndsAndPatterns) {
  EXPECT_EQ(targeted(with_targets({"all-linear"})).size(), 5U);
  EXPECT_THAT(targeted(with_targets({"self_attn.q_proj"})),
              ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"));
  EXPECT_THAT(targeted(with_targets({"model.layers.1.*", "qkv"})),
              ElementsAre("visual.blocks.0.attn.qkv", "model.layers.1.self_attn.q_proj",
                          "model.layers.1.mlp.down_proj"));
  EXPECT_TRUE(targeted(with_targets({"proj"})).empty()) << "not a whole part of a name";
  ModelSection frozen = with_targets({"all-linear"});
  frozen.freeze = {"vision", "backbone"};
  EXPECT_THAT(targeted(frozen), ElementsAre("visual.merger.mlp.0"));
  EXPECT_TRUE(targeted({}).empty());
}

TEST(Adapter, ModulesWithoutOneAreFrozen) {
  EXPECT_THAT(freeze_without_adapter(with_targets({"down_proj"}), maps()).freeze,
              ElementsAre("projector", "vision"));
  EXPECT_TRUE(freeze_without_adapter(with_targets({"all-linear"}), maps()).freeze.empty());
  EXPECT_EQ(freeze_without_adapter({}, maps()), ModelSection());
}

TEST(Adapter, ATargetThatNamesNothingIsRefused) {
  const auto refused = [](const ModelSection& model) {
    return [model] { (void)freeze_without_adapter(model, maps()); };
  };
  EXPECT_THAT(refused(with_targets({"all-linear", "down_prj"})),
              ThrowsMessage<Error>(HasSubstr("did you mean down_proj")));
  ModelSection frozen = with_targets({"q_proj"});
  frozen.freeze = {"backbone"};
  EXPECT_THAT(refused(frozen), ThrowsMessage<Error>(HasSubstr("no linear map has an adapter")));
}

TEST(Adapter, ScalesByRankOrItsRoot) {
  EXPECT_DOUBLE_EQ(adapter_scale({.rank = 16, .alpha = 8}), 0.5);
  EXPECT_DOUBLE_EQ(adapter_scale({.rank = 16, .alpha = 8, .rslora = true}), 2);
}

TEST(Adapter, LayersOfAGraphHaveThoseOfTheirMaps) {
  const LayerShape block{.kind = LayerKind::kBlock, .width = 32};
  const LayerShape merger{.kind = LayerKind::kProjector, .width = 32};
  const ModuleGraph graph{.modules = {{.name = "backbone",
                                       .layers = {{.shape = {.kind = LayerKind::kEmbedding}},
                                                  {.shape = block, .layers = 3},
                                                  {.shape = {.kind = LayerKind::kHead}}}},
                                      {.name = "projector", .layers = {{.shape = merger}}}}};
  const std::vector<LinearMap> maps{
      {.module = "backbone", .name = "model.layers.0.mlp.up_proj", .in = 32, .out = 80},
      {.module = "backbone", .name = "model.layers.2.mlp.up_proj", .in = 32, .out = 80},
      {.module = "backbone", .name = "model.layers.2.mlp.down_proj", .in = 80, .out = 32},
      {.module = "projector", .name = "merger.mlp.0", .in = 64, .out = 64},
      {.module = "projector", .name = "merger.mlp.2", .in = 64, .out = 32}};
  const ModuleGraph adapted = add_adapters(graph, with_targets({"up_proj", "down_proj"}), maps);
  const std::vector<LayerRun>& layers = adapted.modules[0].layers;
  ASSERT_EQ(layers.size(), 5U);
  const AdapterShape first{.rank = 8, .maps = 1, .whole = 32, .cut = 80, .weights = 2560};
  EXPECT_EQ(layers[1].shape.adapter, first);
  EXPECT_EQ(layers[2].shape, block);
  const AdapterShape last{.rank = 8, .maps = 2, .whole = 64, .cut = 160, .weights = 5120};
  EXPECT_EQ(layers[3].shape.adapter, last);
  EXPECT_EQ(adapted.modules[1], graph.modules[1]);
  const AdapterShape& merged =
      add_adapters(graph, with_targets({"all-linear"}), maps).modules[1].layers[0].shape.adapter;
  EXPECT_EQ(merged.values(), 8 * (64 + 64 + 64 + 32));
  ModelSection dora = with_targets({"up_proj"});
  dora.adapter.kind = AdapterKind::kDora;
  EXPECT_EQ(add_adapters(graph, dora, maps).modules[0].layers[1].shape.adapter.magnitudes, 80);
}

TEST(Adapter, KeyOfAProfileIsWhatTimesDependOn) {
  ModelSection model = with_targets({"v_proj", "q_proj"});
  model.freeze = {"vision"};
  EXPECT_EQ(adapter_key(model), "lora, rank 8, on q_proj, v_proj; frozen vision");
  model.adapter.alpha = 32;
  EXPECT_EQ(adapter_key(model), "lora, rank 8, on q_proj, v_proj; frozen vision");
  EXPECT_EQ(adapter_key({}), "");
}

TEST(Adapter, SharesAreWeightsForEachWeight) {
  const auto shares = adapter_shares(with_targets({"q_proj"}), maps());
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_DOUBLE_EQ(shares.at("backbone"), 8.0 * 80 / 2000);
}

}  // namespace
}  // namespace tributary::config
