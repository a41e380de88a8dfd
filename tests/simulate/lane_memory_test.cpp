#include "simulate/lane_memory.h"

#include <gtest/gtest.h>

#include "tests/simulate/plan_case.h"

namespace tributary::simulate {
namespace {

/// Table costs of a model whose encoder and backbone have so many ranks on a lane.
class RankedCosts final : public cost::StageCosts {
 public:
  RankedCosts(std::int64_t encoder, std::int64_t backbone) : of_lane_{backbone, encoder} {}
  [[nodiscard]] cost::StageCost cost(int module, int stage,
                                     const cost::MicrobatchShape& shape) const override {
    cost::StageCost cost = table_.cost(module, stage, shape);
    if (module == 1) cost.kept = {};
    if (module == 1) cost.forward_peak = {7777};
    return cost;
  }
  [[nodiscard]] cost::StageState state(int module, int stage) const override {
    return table_.state(module, stage);
  }
  [[nodiscard]] cost::StageFlops flops(int module, int stage,
                                       const cost::MicrobatchShape& shape) const override {
    return table_.flops(module, stage, shape);
  }
  [[nodiscard]] cost::ModuleRanks ranks(int module) const override {
    return {.replicas = 1, .of_lane = of_lane_[module]};
  }

 private:
  TableCosts table_{true};
  std::int64_t of_lane_[2];
};

/// One encoder in front of one backbone stage.
config::Plan pair_plan(std::int64_t encoder_ranks, std::int64_t backbone_ranks,
                       config::TrainMode encoder) {
  config::Plan plan = vision_plan();
  plan.batch.microbatches = 1;
  for (config::ModulePlan& module : plan.modules) {
    const bool is_encoder = module.name == "vision";
    module.mesh = {.tp = is_encoder ? encoder_ranks : backbone_ranks};
    module.ranks.clear();
    for (std::int64_t rank = 0; rank < module.mesh.tp; ++rank)
      module.ranks.push_back(is_encoder ? 8 + rank : rank);
    if (is_encoder) module.train = encoder;
    if (!is_encoder) module.stages = {{.embed = true, .first = 0, .layers = 4, .head = true}};
  }
  return plan;
}

Simulation simulate_pair(std::int64_t encoder_ranks, std::int64_t backbone_ranks,
                         config::TrainMode encoder = config::TrainMode::kFrozen) {
  return simulate(pair_plan(encoder_ranks, backbone_ranks, encoder),
                  RankedCosts(encoder_ranks, backbone_ranks), small_cluster(16),
                  {.samples = {.kind = SampleSource::Kind::kRecorded,
                               .recorded = {.sizes = {{.tokens = 10, .patches = 50, .items = 1}},
                                            .times = {}}}});
}

/// What the encoder holds whatever runs.
Bytes fixed_bytes(const Simulation& step) {
  const LaneMemory& memory = step.memory[1];
  return memory.total() - memory.activations - memory.features;
}

constexpr std::int64_t kPatches = 64 * 50;

TEST(LaneMemory, FeaturesAreCountedByTheRanksThatHoldThem) {
  for (const std::int64_t encoder : {1, 2, 4}) {
    for (const std::int64_t backbone : {1, 2, 4}) {
      const Simulation step = simulate_pair(encoder, backbone);
      // Each rank of the encoder gives 64 B a patch; the ranks of the backbone share them all.
      EXPECT_EQ(step.memory[0].features, Bytes{64 * kPatches * encoder / backbone});
    }
  }
}

TEST(LaneMemory, FeaturesLieAtTheGiverUntilTheyHaveArrived) {
  const Simulation step = simulate_pair(1, 1);
  const int encoder = 1;
  const MessageTimes& message = step.times.messages[0];
  ASSERT_GT(message.arrived, message.given);
  const Bytes fixed = fixed_bytes(step);
  Bytes on_the_way;
  for (const MemoryPoint& point : step.memory_points[encoder])
    if (point.time >= message.given && point.time < message.arrived)
      on_the_way = std::max(on_the_way, point.bytes - fixed);
  EXPECT_EQ(on_the_way, Bytes{64 * kPatches});
  EXPECT_EQ(step.memory_points[encoder].back().bytes, fixed);
}

TEST(LaneMemory, AForwardThatKeepsNothingHoldsItsLayer) {
  const Simulation step = simulate_pair(1, 1);
  Bytes max;  // while it runs
  for (const MemoryPoint& point : step.memory_points[1])
    if (point.time < step.times.messages[0].given)
      max = std::max(max, point.bytes - fixed_bytes(step));
  EXPECT_EQ(max, Bytes{7777});
}

TEST(NetworkOf, CountsBytesAtBothEndsByTheRanksOfThatEnd) {
  const Simulation step = simulate_pair(4, 1, config::TrainMode::kFull);
  int edges = 0;
  for (std::size_t channel = 0; channel < step.network.routes.size(); ++channel) {
    const Route& route = step.network.routes[channel];
    const bool comes_back =
        step.program.channels()[channel].op == schedule::Op::kSendFeatureGradients;
    ASSERT_EQ(route.links.size(), 2u);
    // Four ranks of the encoder meet one of the backbone, whichever way.
    EXPECT_EQ(route.links[0].weight, comes_back ? 4 : 1);
    EXPECT_EQ(route.links[1].weight, comes_back ? 1 : 4);
    ++edges;
  }
  EXPECT_EQ(edges, 2);
}

}  // namespace
}  // namespace tributary::simulate
