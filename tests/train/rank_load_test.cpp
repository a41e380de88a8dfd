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
enum Chain : std::size_t { kVision, kBackbone };

std::vector<SampleShape> two_samples() {
  return {{.tokens = {30}, .target_tokens = {5}, .images = {kLarge, kSmall}, .videos = {}},
          {.tokens = {60}, .target_tokens = {9}, .images = {}, .videos = {}}};
}

class LoadOfRank : public testing::Test {
 protected:
  config::ModelConfig model_ = make_model();
  config::ModelSection section_;
  std::vector<SampleShape> shapes_ = two_samples();
  WorkLoad whole_ = load_of(model_, section_, shapes_);
};

TEST_F(LoadOfRank, IsThatOfItsReplicaWhereModulesLieTogether) {
  const mesh::Mesh alone;
  const RunLanes lanes = one_lane();
  EXPECT_EQ(load_of_rank({model_, section_, lanes, alone}, shapes_, {}), whole_);
  const LoadParts parts = parts_of_load(model_, lanes, alone);
  EXPECT_EQ(parts.time, 1);
  EXPECT_EQ(parts.chains, (std::vector<std::int64_t>{1, 1}));
}

TEST_F(LoadOfRank, HasEachModuleOnceWhereTheyLieApart) {
  const mesh::Mesh alone;  // of both modules: colocated on one rank
  RunLanes lanes = one_lane();
  lanes.edges.push_back({.encoder = "vision",
                         .takes = {Modality::kImage, Modality::kVideo},
                         .ranks = {},
                         .seats = {.passes = 1, .replicas = 1, .seats = 2, .takers = 1}});
  const DealtItems items{
      {{{.sample = 0, .grid = kLarge, .seat = 1}, {.sample = 0, .grid = kSmall, .seat = 0}}}};
  const WorkLoad backbone = load_of_rank({model_, section_, lanes, alone}, shapes_, items);
  EXPECT_EQ(backbone.chain_times[kVision], 0);
  EXPECT_EQ(backbone.chain_rows, (std::vector<double>{0, 90})) << "no patches, all tokens";
  EXPECT_EQ(backbone.chain_times[kBackbone], whole_.chain_times[kBackbone]);
  EXPECT_EQ(backbone.time, whole_.chain_times[kBackbone]);
  EXPECT_EQ(backbone.attention,
            load_of(model_, section_,
                    std::vector<SampleShape>{
                        {.tokens = {30}, .target_tokens = {}, .images = {}, .videos = {}},
                        {.tokens = {60}, .target_tokens = {}, .images = {}, .videos = {}}})
                .attention)
      << "without that of the tower";

  lanes.encoders = {{.lane = 1, .encoder = "vision", .edge = 0, .seat = 1, .mesh = &alone}};
  const WorkLoad both = load_of_rank({model_, section_, lanes, alone}, shapes_, items);
  EXPECT_EQ(both.chain_rows[kVision], kLarge.patches()) << "what the seat encodes";
  EXPECT_GT(both.chain_times[kVision], 0);
  EXPECT_LT(both.chain_times[kVision], whole_.chain_times[kVision]);
  EXPECT_EQ(both.time, both.chain_times[kVision] + both.chain_times[kBackbone]);
  EXPECT_EQ(parts_of_load(model_, lanes, alone).chains, (std::vector<std::int64_t>{2, 1}));
}

/// A load of two chains.
WorkLoad load_with(double time, std::vector<double> times, std::vector<double> rows,
                   double attention) {
  WorkLoad load(times.size());
  load.time = time;
  load.attention = attention;
  load.chain_times = std::move(times);
  load.chain_rows = std::move(rows);
  return load;
}

TEST(PartOfLoad, SharesTheTimeAlone) {
  const WorkLoad load = load_with(8, {6, 2}, {10, 20}, 30);
  EXPECT_EQ(part_of_load(load, 4, /*leads=*/true), load_with(2, {6, 2}, {10, 20}, 30));
  EXPECT_EQ(part_of_load(load, 4, /*leads=*/false), load_with(2, {0, 0}, {0, 0}, 0));
}

// Three seats encode 6, 2 and 1, for two replicas on one rank each: the ranks have 6, 2, 1, 5, 4.
TEST(ImbalanceOf, ComparesSeatsWithSeatsAndReplicasWithReplicas) {
  const std::vector<Imbalance> imbalance =
      imbalance_of(make_model(), load_with(6, {6, 5}, {60, 50}, 0),
                   load_with(18, {9, 9}, {90, 90}, 0), {.time = 5, .chains = {3, 2}});
  EXPECT_EQ(imbalance, (std::vector<Imbalance>{{"time", 6 * 5 / 18.0},
                                               {"vision", 2},
                                               {"patches", 2},
                                               {"backbone", 5 * 2 / 9.0},
                                               {"tokens", 50 * 2 / 90.0}}))
      << "no attention to compare";
}

}  // namespace
}  // namespace tributary::train
