#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "parallel/pass_observer.h"
#include "parallel/unit_chain.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"

namespace tributary::train {
namespace {

void run_trainees(const Cell& cell, const std::function<void(const mesh::Mesh&, Trainee&)>& body) {
  mesh::run_worlds(static_cast<int>(cell.world()), [&](const mesh::World& world) {
    Trainee trainee(cell, world);
    body(trainee.mesh(), trainee);
  });
}

TEST(StepCollectives, BringNumbersOfTheHostTogetherTwiceAStep) {
  for (const config::MeshShape& shape : std::vector<config::MeshShape>{
           {.dp_shard = 2}, {.dp_replicate = 2}, {.pp = 2}, {.tp = 2}, {.cp = 2}}) {
    run_trainees({.shape = shape}, [](const mesh::Mesh& mesh, Trainee& trainee) {
      for (int step = 0; step < 2; ++step) {
        const std::int64_t before = mesh.world().traffic().calls;
        (void)trainee.differentiate(step);
        EXPECT_EQ(trainee.update().not_finite, "");
        EXPECT_EQ(mesh.world().traffic().calls - before, 2);
      }
    });
  }
}

TEST(StepCollectives, GatherEachUnitOnceForwardAndOnceBackward) {
  run_trainees(
      {.shape = {.dp_shard = 2}, .samples = 2, .balance = config::Balance::kLpt, .microbatches = 1},
      [](const mesh::Mesh& mesh, Trainee& trainee) {
        const std::int64_t before = mesh.shard().traffic().calls;
        (void)trainee.differentiate(/*step=*/0);
        EXPECT_EQ(mesh.shard().traffic().calls - before, 2 * std::ssize(trainee.model().units()));
      });
}

/// Bytes that a rank sends in a step: features and their gradients, and all but numbers of the
/// host.
std::pair<std::int64_t, std::int64_t> bytes_of_a_step(const mesh::World& world, const Cell& cell) {
  Trainee trainee(cell, world);
  const auto all = [&] { return world.traffic().bytes - world.all().traffic().bytes; };
  const std::int64_t features_before = trainee.lanes().sent_bytes();
  const std::int64_t all_before = all();
  (void)trainee.differentiate(/*step=*/0);
  return {trainee.lanes().sent_bytes() - features_before, all() - all_before};
}

TEST(StepCollectives, CountFeaturesThatGoToAnotherMesh) {
  mesh::run_worlds(2, [](const mesh::World& world) {
    const auto [features, all] = bytes_of_a_step(world, {.vision = config::MeshShape{}});
    EXPECT_GT(features, 0);
    EXPECT_EQ(features, all) << "modules of one rank send nothing else";
    EXPECT_EQ(features, world.all().largest({features}).front()) << "gradients go the same way";
  });
  mesh::run_worlds(2, [](const mesh::World& world) {
    const auto [features, all] = bytes_of_a_step(world, {.shape = {.tp = 2},
                                                         .vision = config::MeshShape{.dp_shard = 2},
                                                         .vision_passes = 2,
                                                         .samples = 24});
    EXPECT_GT(features, 0);
    EXPECT_LT(features, all);
  });
}

/// Counts the sums over dp_replicate that are under way when backward comes to a unit.
class SumsSeen final : public parallel::PassObserver {
 public:
  SumsSeen(std::string unit, const mesh::Mesh& mesh) : unit_(std::move(unit)), mesh_(mesh) {}
  void on_pass(const parallel::Unit& unit, parallel::LayerPass pass) override {
    if (unit.name() == unit_ && pass == parallel::LayerPass::kBackward)
      seen.push_back(mesh_.replicate().traffic().calls);
  }
  std::vector<std::int64_t> seen;  // at each backward

 private:
  std::string unit_;
  const mesh::Mesh& mesh_;
};

TEST(StepCollectives, AddAUnitOverReplicasBeforeTheBackwardOfThoseBelowIt) {
  for (const bool shards : {false, true}) {
    config::MeshShape shape{.dp_replicate = 2};
    if (shards) shape.dp_shard = 2;
    run_trainees({.shape = shape,
                  .layers = 4,
                  .samples = 8,
                  .balance = config::Balance::kLpt,
                  .microbatches = 2},
                 [&](const mesh::Mesh& mesh, Trainee& trainee) {
                   SumsSeen observer("backbone.layers.0", mesh);
                   parallel::UnitChain& chain = *trainee.model().layout().chain;
                   chain.set_observer(&observer);
                   const std::int64_t before = mesh.replicate().traffic().calls;
                   (void)trainee.differentiate(/*step=*/0);
                   chain.set_observer(nullptr);
                   ASSERT_EQ(observer.seen.size(), 2);
                   EXPECT_EQ(observer.seen[0] - before, 0) << "more microbatches are to come";
                   // The head and three layers; of shards two reductions may be under way.
                   EXPECT_EQ(observer.seen[1] - before, shards ? 2 : 4);
                   EXPECT_EQ(mesh.replicate().traffic().calls - before,
                             std::ssize(trainee.model().units()));
                 });
  }
}

}  // namespace
}  // namespace tributary::train
