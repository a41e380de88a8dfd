#include "train/balance/cost_correction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kSamples = 12;
constexpr std::int64_t kLag = 2 * kSamples;
const schedule::CorrectionOptions kQuick{
    .warm_up_steps = 3, .discarded_steps = 1, .window_steps = 20, .rest_windows = 2};

/// A batch of one replica, each sample a microbatch of its own.
struct Batch {
  std::vector<schedule::SampleLoad> loads;
  PredictedBatch predicted;
};

Batch make_batch(std::int64_t step) {
  Batch batch;
  RandomStream random(3, "batch", static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const std::int64_t side = random.between(0, 2) == 0 ? 0 : 4 * random.between(1, 3);
    SampleShape shape;
    shape.tokens = {32 * random.between(1, 3)};
    shape.target_tokens = {8};
    if (side > 0) shape.images.push_back({1, side, side});
    const schedule::SampleLoad load{.tokens = shape.tokens,
                                    .vision = {side * side * 1000},
                                    .backbone = {shape.tokens.count * 2000}};
    batch.loads.push_back(load);
    for (const auto& share : CostCorrection::shares_of(shape, load))
      batch.predicted.shares.push_back(share);
  }
  batch.predicted.plan = schedule::plan_step(
      {.samples = batch.loads, .packing = config::Packing::kNone, .capacity = Tokens{4096}});
  batch.predicted.replica_without = batch.predicted.plan.replica_of;
  return batch;
}

/// Vision takes `slow` times as long as predicted beside the backbone.
MeasuredPart measure(const Batch& batch, double slow) {
  MeasuredPart part;
  for (std::int64_t bin = 0; bin < batch.predicted.plan.microbatches[0].bins(); ++bin) {
    const auto place = batch.predicted.plan.microbatches[0].bin(bin).front();
    const schedule::SampleLoad& load = batch.loads[static_cast<std::size_t>(place)];
    part.microbatches.push_back(1e-7 * (slow * static_cast<double>(load.vision.count) +
                                        static_cast<double>(load.backbone.count)));
    part.step += part.microbatches.back();
  }
  return part;
}

void run_steps(CostCorrection& correction, std::int64_t from, std::int64_t to, double slow) {
  const mesh::Mesh alone;
  for (std::int64_t step = from; step < to; ++step) {
    const Batch batch = make_batch(step);
    correction.end_step(step * kSamples, batch.predicted, measure(batch, slow), alone);
  }
}

/// How much dearer vision is beside the backbone than it was predicted, over a whole batch.
double learned(const CostCorrection& correction, std::int64_t step) {
  const Batch batch = make_batch(step);
  double vision = 0, backbone = 0, vision_before = 0, backbone_before = 0;
  const auto loads = correction.correct(step * kSamples, batch.loads, batch.predicted.shares);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    vision += static_cast<double>(loads[i].vision.count);
    backbone += static_cast<double>(loads[i].backbone.count);
    vision_before += static_cast<double>(batch.loads[i].vision.count);
    backbone_before += static_cast<double>(batch.loads[i].backbone.count);
  }
  return vision / backbone * backbone_before / vision_before;
}

TEST(CostCorrection, LearnsWhichModuleIsSlowerThanPredicted) {
  for (const double slow : {0.6, 1.0, 2.5}) {
    SCOPED_TRACE(slow);
    CostCorrection correction(kLag, kQuick);
    EXPECT_EQ(learned(correction, 0), 1);
    run_steps(correction, 0, 60, slow);
    // One replica gains nothing by it, so it switches itself off before it has gone all the way.
    EXPECT_NEAR(learned(correction, 70), slow, 0.15 * slow);
  }
}

TEST(CostCorrection, PlansByWhatWasKnownAFixedNumberOfBatchesBefore) {
  CostCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  const double known = learned(correction, 11);  // by the steps up to 9
  run_steps(correction, 10, 11, 0.5);            // ends while batch 11 waits
  EXPECT_EQ(learned(correction, 11), known);
  EXPECT_NE(learned(correction, 12), known);
}

TEST(CostCorrection, LearnsNothingFromOtherSamplesThanPlanned) {
  CostCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  const auto ratios = correction.state().ratios;
  const Batch batch = make_batch(10);
  MeasuredPart part = measure(batch, 9);
  part.as_planned = false;
  correction.end_step(10 * kSamples, batch.predicted, part, mesh::Mesh());
  EXPECT_EQ(correction.state().ratios, ratios);
}

TEST(CostCorrection, SwitchesItselfOffWhereItSavesNothing) {
  CostCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 6 + 20, 2);  // one replica: no arrangement is better than another
  EXPECT_EQ(correction.state().phase, schedule::CorrectionPhase::kOff);
  EXPECT_NEAR(learned(correction, 40), 2, 0.3) << "what was learned stays in use";
}

TEST(CostCorrection, GoesOnFromWhatItSaved) {
  CostCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  CostCorrection again(kLag, kQuick);
  again.restore(parse_json(correction.save().dump(), "state"), "state");
  EXPECT_EQ(again.state(), correction.state());
  EXPECT_EQ(learned(again, 20), learned(correction, 20));
  run_steps(correction, 10, 20, 2);
  run_steps(again, 10, 20, 2);
  EXPECT_EQ(again.state(), correction.state());
  Json broken = correction.save();
  broken["phase"] = 7;
  EXPECT_THROW(again.restore(broken, "state"), Error);
  broken.erase("phase");
  EXPECT_THROW(again.restore(broken, "state"), Error);
}

}  // namespace
}  // namespace tributary::train
