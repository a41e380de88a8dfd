#include "train/balance/rank_load.h"

#include <gtest/gtest.h>

namespace tributary::train {
namespace {

config::ModelConfig make_model() {
  config::ModelConfig config;
  config.family = config::ModelFamily::kQwen2_5Vl;
  config.backbone = {.layers = 2,
                     .width = 32,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_width = 16,
                     .mlp_width = 64,
                     .vocab = 280,
                     .max_positions = 512,
                     .rope_theta = 1e4,
                     .norm_epsilon = 1e-6,
                     .qkv_bias = true,
                     .qk_norm = false,
                     .tied_head = true,
                     .mrope_section = {2, 3, 3}};
  config.vision = config::VisionConfig{.layers = 2,
                                       .width = 32,
                                       .heads = 2,
                                       .mlp_width = 48,
                                       .output_width = 32,
                                       .full_attention_layers = {1}};
  return config;
}

constexpr Grid kSmall{1, 4, 4}, kLarge{1, 8, 12};
enum Dimension : std::size_t { kTime, kVision, kBackbone, kTokens, kPatches, kAttention };

std::vector<SampleShape> two_samples() {
  return {{.tokens = {30}, .target_tokens = {5}, .images = {kLarge, kSmall}, .videos = {}},
          {.tokens = {60}, .target_tokens = {9}, .images = {}, .videos = {}}};
}

class LoadOfRank : public testing::Test {
 protected:
  config::ModelConfig model_ = make_model();
  config::ModelSection section_;
  std::vector<SampleShape> shapes_ = two_samples();
  ReplicaLoad whole_ = load_of(model_, section_, shapes_);
};

TEST_F(LoadOfRank, IsThatOfItsReplicaWhereModulesLieTogether) {
  const mesh::Mesh alone;
  const RunLanes lanes = one_lane();
  EXPECT_EQ(load_of_rank({model_, section_, lanes, alone}, shapes_, {}), whole_);
  const LoadParts parts = parts_of_load(lanes, alone);
  EXPECT_EQ(parts.time, 1);
  EXPECT_EQ(parts.media, 1);
}

TEST_F(LoadOfRank, HasEachModuleOnceWhereTheyLieApart) {
  const mesh::Mesh alone;  // of both modules: colocated on one rank
  RunLanes lanes = one_lane();
  lanes.encoding = 0;
  lanes.seat = 1;
  lanes.edges.push_back({.encoder = "vision",
                         .ranks = {},
                         .seats = {.passes = 1, .replicas = 1, .seats = 2, .takers = 1}});
  const std::vector<schedule::MediaRound> rounds{
      {{.sample = 0, .grid = kLarge, .seat = 1}, {.sample = 0, .grid = kSmall, .seat = 0}}};
  const ReplicaLoad backbone = load_of_rank({model_, section_, lanes, alone}, shapes_, rounds);
  EXPECT_EQ(backbone[kVision], 0);
  EXPECT_EQ(backbone[kPatches], 0);
  EXPECT_EQ(backbone[kTokens], 90);
  EXPECT_EQ(backbone[kBackbone], whole_[kBackbone]);
  EXPECT_EQ(backbone[kTime], whole_[kBackbone]);
  EXPECT_EQ(
      backbone[kAttention],
      load_of(model_, section_,
              std::vector<SampleShape>{
                  {.tokens = {30}, .target_tokens = {}, .images = {}, .videos = {}},
                  {.tokens = {60}, .target_tokens = {}, .images = {}, .videos = {}}})[kAttention])
      << "without that of the tower";

  const ReplicaLoad both = load_of_rank({model_, section_, lanes, alone, &alone}, shapes_, rounds);
  EXPECT_EQ(both[kPatches], kLarge.patches()) << "what the seat encodes";
  EXPECT_GT(both[kVision], 0);
  EXPECT_LT(both[kVision], whole_[kVision]);
  EXPECT_EQ(both[kTime], both[kVision] + both[kBackbone]);
  const LoadParts parts = parts_of_load(lanes, alone);
  EXPECT_EQ(parts.media, 2);
  EXPECT_EQ(parts.replicas, 1);
}

TEST(PartOfLoad, SharesTheTimeAlone) {
  const ReplicaLoad load{8, 6, 2, 10, 20, 30};
  EXPECT_EQ(part_of_load(load, 4, /*leads=*/true), (ReplicaLoad{2, 6, 2, 10, 20, 30}));
  EXPECT_EQ(part_of_load(load, 4, /*leads=*/false), (ReplicaLoad{2, 0, 0, 0, 0, 0}));
}

// Three seats encode 6, 2 and 1, for two replicas on one rank each: the ranks have 6, 2, 1, 5, 4.
TEST(ImbalanceOf, ComparesSeatsWithSeatsAndReplicasWithReplicas) {
  const ReplicaLoad largest{6, 6, 5, 50, 60, 70};
  const ReplicaLoad sum{18, 9, 9, 90, 90, 0};
  const ReplicaLoad imbalance = imbalance_of(largest, sum, {.time = 5, .media = 3, .replicas = 2});
  EXPECT_DOUBLE_EQ(imbalance[kTime], 6 * 5 / 18.0);
  EXPECT_DOUBLE_EQ(imbalance[kVision], 2);
  EXPECT_DOUBLE_EQ(imbalance[kPatches], 2);
  EXPECT_DOUBLE_EQ(imbalance[kBackbone], 10 / 9.0);
  EXPECT_DOUBLE_EQ(imbalance[kTokens], 10 / 9.0);
  EXPECT_EQ(imbalance[kAttention], 0) << "nothing to compare";
}

}  // namespace
}  // namespace tributary::train
