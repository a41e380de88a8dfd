#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>

#include <ATen/ATen.h>

#include "core/error.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"

namespace tributary::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void expect_equal(const Cell& cell) {
  Deviation worst;
  std::mutex mutex;
  mesh::run_worlds(static_cast<int>(cell.world()), [&](const mesh::World& world) {
    const Deviation own = run_cell(world, cell);
    const std::scoped_lock lock(mutex);
    worst.loss = std::max(worst.loss, own.loss);
    if (own.gradient >= worst.gradient) {
      worst.gradient = own.gradient;
      worst.parameter = own.parameter;
    }
  });
  EXPECT_LT(worst.loss, 1e-5) << cell.name();
  EXPECT_LT(worst.gradient, 1e-4) << cell.name() << " at " << worst.parameter;
  std::printf("%-60s loss %.1e gradient %.1e\n", cell.name().c_str(), worst.loss, worst.gradient);
}

TEST(ManyRanks, TrainLikeOneWhenShardedAlone) { expect_equal({.shape = {.dp_shard = 2}}); }
TEST(ManyRanks, TrainLikeOneWhenReplicated) { expect_equal({.shape = {.dp_replicate = 2}}); }
TEST(ManyRanks, TrainLikeOneUnderTensorParallel) { expect_equal({.shape = {.tp = 2}}); }
TEST(ManyRanks, TrainTextLikeOneUnderTensorParallel) {
  expect_equal({.shape = {.tp = 2}, .sees = false});
}
TEST(ManyRanks, ShareKeyHeadsUnderTensorParallel) { expect_equal({.shape = {.tp = 4}}); }
TEST(ManyRanks, ShardWhatTensorParallelCut) {
  expect_equal({.shape = {.dp_shard = 2, .tp = 2}});
  expect_equal({.shape = {.dp_shard = 2, .tp = 2}, .sees = false});
}
TEST(ManyRanks, ReplicateShards) {
  expect_equal({.shape = {.dp_replicate = 2, .dp_shard = 2}, .sees = false});
}
TEST(ManyRanks, TrainWithMoreRanksThanSamples) {
  expect_equal({.shape = {.dp_shard = 4}, .samples = 2});
}
TEST(ManyRanks, ReduceATiedHeadInEveryMicrobatch) {
  expect_equal({.shape = {.dp_shard = 2}, .sees = false, .samples = 24, .steps = 3});
}
TEST(ManyRanks, TrainWithFrozenVision) {
  expect_equal({.shape = {.dp_shard = 2}, .freeze = {"vision"}});
  expect_equal({.shape = {.dp_shard = 2}, .freeze = {"vision", "projector"}});
  expect_equal({.shape = {.tp = 2}, .freeze = {"vision"}});
}
TEST(ManyRanks, TrainAdaptersLikeOne) {
  const config::AdapterSection lora{.kind = config::AdapterKind::kLora, .rank = 3};
  const config::AdapterSection dora{.kind = config::AdapterKind::kDora, .rank = 3};
  expect_equal({.shape = {.dp_shard = 2}, .adapter = lora, .steps = 4});
  expect_equal({.shape = {.dp_shard = 2, .tp = 2}, .adapter = dora, .steps = 4});
}
TEST(ManyRanks, ComparePairsLikeOne) {
  const config::AdapterSection lora{.kind = config::AdapterKind::kLora, .rank = 3};
  for (const config::MeshShape& shape : {config::MeshShape{.dp_shard = 2},
                                         {.tp = 2},
                                         {.cp = 2},
                                         {.ulysses = 2},
                                         {.dp_shard = 2, .tp = 2}})
    expect_equal({.shape = shape, .samples = 7, .compares_pairs = true, .steps = 3});
  expect_equal({.shape = {.cp = 2},
                .sees = false,
                .samples = 1,
                .chunks_head = true,
                .compares_pairs = true,
                .steps = 3});
  expect_equal({.shape = {.dp_shard = 2}, .adapter = lora, .compares_pairs = true, .steps = 3});
  expect_equal({.shape = {.dp_shard = 2},
                .samples = 9,
                .balance = config::Balance::kLpt2d,
                .compares_pairs = true,
                .steps = 3});
}
TEST(ManyRanks, ComparePairsInAPipelineLikeOne) {
  using Order = config::PipelineOrder;
  for (const Order order : {Order::k1f1b, Order::kInterleaved, Order::kZbV})
    expect_equal({.shape = {.pp = 2},
                  .order = order,
                  .virtual_stages = order == Order::kInterleaved ? 2 : 1,
                  .layers = 4,
                  .samples = 12,
                  .compares_pairs = true,
                  .steps = 3});
  expect_equal({.shape = {.dp_shard = 2},
                .vision = config::MeshShape{.dp_shard = 2},
                .samples = 9,
                .compares_pairs = true,
                .steps = 3});
  expect_equal({.shape = {.pp = 2},
                .vision = config::MeshShape{.dp_shard = 2},
                .vision_passes = 2,
                .layers = 4,
                .samples = 9,
                .compares_pairs = true,
                .steps = 3});
}

TEST(ManyRanks, TrainLikeOneWhenBalanced) {
  using config::Balance;
  expect_equal({.shape = {.dp_shard = 2}, .samples = 9, .balance = Balance::kLpt2d});
  expect_equal({.shape = {.dp_replicate = 2}, .samples = 9, .balance = Balance::kLpt});
  expect_equal({.shape = {.dp_shard = 4}, .samples = 24, .balance = Balance::kLpt2d, .steps = 8});
  expect_equal({.shape = {.dp_shard = 4}, .samples = 2, .balance = Balance::kLpt2d, .steps = 8});
  expect_equal({.shape = {.dp_replicate = 2, .dp_shard = 2},
                .freeze = {"vision"},
                .samples = 11,
                .balance = Balance::kLpt2d,
                .steps = 8});
}

TEST(ManyRanks, RefuseAStepThatRanksPlannedDifferently) {
  mesh::run_worlds(2, [](const mesh::World& world) {
    const Cell cell{
        .shape = {.dp_shard = 2},
        .balance = world.rank() == 0 ? config::Balance::kNone : config::Balance::kLpt2d};
    Trainee trainee(cell, world);
    EXPECT_THAT([&] { (void)trainee.differentiate(0); },
                ThrowsMessage<Error>(HasSubstr("ranks have planned the step differently")));
  });
}

TEST(ManyRanks, RecomputeLikeOne) {
  expect_equal({.shape = {.dp_shard = 2, .tp = 2}, .recompute = {{"vision"}, {"backbone"}}});
}

using Order = config::PipelineOrder;

TEST(ManyRanks, PipelineLikeOne) {
  for (const Order order : {Order::kGpipe, Order::k1f1b, Order::kZbH1, Order::kZbV, Order::kVHalf})
    expect_equal({.shape = {.pp = 2}, .order = order, .layers = 8, .samples = 24, .steps = 4});
  expect_equal({.shape = {.pp = 2},
                .order = Order::kInterleaved,
                .virtual_stages = 2,
                .layers = 8,
                .samples = 24,
                .steps = 4});
}
TEST(ManyRanks, PipelineATiedHead) {
  for (const Order order : {Order::k1f1b, Order::kZbH1, Order::kZbV})
    expect_equal({.shape = {.pp = 2},
                  .order = order,
                  .layers = 8,
                  .sees = false,
                  .samples = 24,
                  .steps = 4});
}
TEST(ManyRanks, PipelineFrozenVision) {
  for (const Order order : {Order::k1f1b, Order::kZbH1})
    expect_equal({.shape = {.pp = 2},
                  .order = order,
                  .layers = 8,
                  .freeze = {"vision"},
                  .samples = 24,
                  .steps = 4});
}

TEST(ManyRanks, PipelineATowerOfItsOwn) {
  for (const Order order : {Order::k1f1b, Order::kZbH1, Order::kZbV})
    for (const bool frozen : {false, true})
      expect_equal(
          {.shape = {.pp = 3},
           .order = order,
           .vision_stages = 1,
           .layers = 4,
           .freeze = frozen ? std::vector<std::string>{"vision"} : std::vector<std::string>{},
           .samples = 24,
           .steps = 3});
  expect_equal(
      {.shape = {.pp = 4}, .order = Order::kZbH1, .vision_stages = 2, .layers = 4, .steps = 3});
  expect_equal({.shape = {.pp = 3, .tp = 2}, .vision_stages = 1, .layers = 4, .steps = 3});
  expect_equal({.shape = {.pp = 3, .cp = 2}, .vision_stages = 1, .layers = 4, .steps = 3});
}

TEST(ManyRanks, GiveATowerRanksOfItsOwn) {
  using config::MeshShape;
  // As many replicas as the backbone, fewer, and more; cut by tp on either side.
  for (const auto& [backbone, vision] :
       std::vector<std::pair<MeshShape, MeshShape>>{{{}, {}},
                                                    {{.dp_shard = 2}, {}},
                                                    {{}, {.dp_shard = 2}},
                                                    {{.dp_shard = 2}, {.dp_shard = 3}},
                                                    {{.dp_replicate = 3}, {.dp_replicate = 2}},
                                                    {{.tp = 2}, {}},
                                                    {{}, {.tp = 2}},
                                                    {{.tp = 2}, {.dp_shard = 2}},
                                                    {{.dp_shard = 2}, {.tp = 2}},
                                                    {{.cp = 2}, {.dp_shard = 2}},
                                                    {{.cp = 2, .tp = 2}, {.tp = 2}},
                                                    {{.dp_shard = 2}, {.cp = 2}}})
    expect_equal({.shape = backbone, .vision = vision, .samples = 9, .steps = 4});
}
TEST(ManyRanks, GiveAFrozenTowerRanksOfItsOwn) {
  for (const std::vector<std::string>& freeze :
       {std::vector<std::string>{"vision"}, {"backbone", "vision"}, {"backbone", "projector"}})
    expect_equal({.shape = {.dp_shard = 2},
                  .vision = config::MeshShape{.dp_replicate = 2},
                  .freeze = freeze,
                  .samples = 9,
                  .steps = 3});
}
TEST(ManyRanks, GiveATowerRanksBesideAPipeline) {
  for (const Order order : {Order::k1f1b, Order::kInterleaved, Order::kZbV})
    expect_equal({.shape = {.pp = 2},
                  .order = order,
                  .virtual_stages = order == Order::kInterleaved ? 2 : 1,
                  .vision = config::MeshShape{.dp_shard = 2},
                  .layers = 4,
                  .samples = 24,
                  .steps = 3});
  expect_equal({.shape = {.pp = 2, .dp_shard = 2},
                .order = Order::kZbH1,
                .vision = config::MeshShape{.pp = 2},
                .vision_ranks = {1, 4},
                .layers = 4,
                .samples = 24,
                .steps = 3});
}

TEST(ManyRanks, GiveAColocatedTowerDegreesOfItsOwn) {
  using config::MeshShape;
  for (const auto& [backbone, vision] : std::vector<std::pair<MeshShape, MeshShape>>{
           {{.tp = 2}, {.dp_shard = 2}},
           {{.dp_shard = 2}, {.tp = 2}},
           {{.dp_shard = 2}, {.dp_replicate = 2}},
           {{.cp = 2}, {.dp_shard = 2}},
           {{.dp_shard = 2, .tp = 2}, {.dp_replicate = 2, .dp_shard = 2}},
           {{.cp = 2, .tp = 2}, {.dp_shard = 2, .tp = 2}}})
    for (const std::int64_t passes : {1, 3})
      expect_equal(
          {.shape = backbone, .vision = vision, .vision_passes = passes, .samples = 9, .steps = 3});
  for (const Order order : {Order::kGpipe, Order::k1f1b, Order::kInterleaved})
    expect_equal({.shape = {.pp = 2, .tp = 2},
                  .order = order,
                  .virtual_stages = order == Order::kInterleaved ? 2 : 1,
                  .vision = MeshShape{.dp_shard = 4},
                  .vision_passes = 2,
                  .layers = 4,
                  .samples = 24,
                  .steps = 3});
}
TEST(ManyRanks, GiveAFrozenColocatedTowerDegreesOfItsOwn) {
  for (const Order order : {Order::k1f1b, Order::kZbV})
    expect_equal({.shape = {.pp = 2},
                  .order = order,
                  .vision = config::MeshShape{.dp_shard = 2},
                  .vision_passes = 2,
                  .layers = 4,
                  .freeze = {"vision"},
                  .samples = 24,
                  .steps = 3});
}

TEST(ManyRanks, SkipAStepTogetherAndNameTheParameter) {
  for (const config::MeshShape& shape :
       {config::MeshShape{.dp_shard = 2}, {.tp = 2}, {.dp_shard = 2, .cp = 2}})
    mesh::run_worlds(static_cast<int>(shape.world()), [&](const mesh::World& world) {
      const Cell cell{.shape = shape};
      Trainee trainee(cell, world);
      (void)trainee.differentiate(0);
      const parallel::Unit& unit = *trainee.model().units().back();  // the head's
      const parallel::Parameter& head = *unit.parameters().back();
      const parallel::Range own = unit.range_of(head);
      if (world.rank() + 1 == world.size()) unit.shard_gradient()[own.first] = NAN;
      trainee.measure_norm();
      const at::Tensor before = unit.shard_value().clone();
      EXPECT_EQ(trainee.update().not_finite, head.name);
      EXPECT_TRUE(at::equal(unit.shard_value(), before));
      EXPECT_EQ(trainee.optimizer().steps(), 0);
    });
}

/// Bytes that a rank sends in a step of several microbatches.
std::int64_t bytes_of_a_step(const mesh::World& world, bool shards_optimizer) {
  const Cell cell{.shape = {.dp_shard = 2}, .samples = 24, .shards_optimizer = shards_optimizer};
  Trainee trainee(cell, world);
  const std::int64_t before = world.traffic().bytes;
  (void)trainee.differentiate(0);
  return world.traffic().bytes - before;
}

TEST(ManyRanks, GatherAndReduceOnceAStepUnderZero1) {
  mesh::run_worlds(2, [](const mesh::World& world) {
    const std::int64_t every_microbatch = bytes_of_a_step(world, /*shards_optimizer=*/false);
    const std::int64_t once = bytes_of_a_step(world, /*shards_optimizer=*/true);
    EXPECT_LT(2 * once, every_microbatch);
  });
}

TEST(ManyRanks, KeepTheirShareOfParametersGradientsAndMoments) {
  const std::int64_t whole = count_state_bytes(mesh::Mesh());
  for (const std::int64_t ranks : {2, 4, 8}) {
    std::mutex mutex;
    std::int64_t max = 0;
    mesh::run_ranks({.dp_shard = ranks}, [&](const mesh::Mesh& mesh) {
      const std::int64_t own = count_state_bytes(mesh);
      const std::scoped_lock lock(mutex);
      max = std::max(max, own);
    });
    std::printf("%ld ranks: %ld of %ld bytes on the fullest\n", ranks, max, whole);
    // Shards end at multiples of 64 bytes, which is a few per cent for layers as small as these.
    EXPECT_LT(max, whole / ranks * 115 / 100) << ranks;
  }
}

}  // namespace
}  // namespace tributary::train
