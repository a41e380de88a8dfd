#include "schedule/correct_costs/batch_correction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"

namespace tributary::schedule {
namespace {

constexpr std::int64_t kSamples = 12;
constexpr std::int64_t kLag = 2 * kSamples;
const CorrectionOptions kQuick{
    .warm_up_steps = 3, .discarded_steps = 1, .window_steps = 20, .rest_windows = 2};

/// A batch of one replica.
struct Batch {
  std::int64_t step;
  std::vector<SampleLoad> loads;
  PredictedBatch predicted;
};

/// kNone: each sample is a microbatch of its own; else they hold up to `capacity` tokens.
Batch make_batch(std::int64_t step, std::int64_t samples = kSamples,
                 config::Packing packing = config::Packing::kNone, Tokens capacity = {4096}) {
  Batch batch{.step = step, .loads = {}, .predicted = {}};
  RandomStream random(3, "batch", static_cast<std::uint64_t>(step));
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t side = random.between(0, 2) == 0 ? 0 : 4 * random.between(1, 3);
    const std::int64_t tokens = 32 * random.between(1, 3);
    batch.loads.push_back({.tokens = {tokens},
                           .chains = {{.time = {side * side * 1000}, .rows = side * side},
                                      {.time = {tokens * 2000}, .rows = tokens}}});
  }
  batch.predicted = BatchCorrection::predict(batch.loads);
  batch.predicted.plan =
      plan_step({.samples = batch.loads, .packing = packing, .capacity = capacity});
  batch.predicted.replica_without = batch.predicted.plan.replica_of;
  return batch;
}

/// Vision takes `slow` times as long as predicted beside the backbone.
MeasuredPart measure(const Batch& batch, double slow, double noise = 0, std::uint64_t seed = 5) {
  MeasuredPart part;
  RandomStream random(seed, "noise", static_cast<std::uint64_t>(batch.step));
  for (std::int64_t bin = 0; bin < batch.predicted.plan.microbatches[0].bins(); ++bin) {
    double time = 0;
    for (const std::int32_t place : batch.predicted.plan.microbatches[0].bin(bin)) {
      const SampleLoad& load = batch.loads[static_cast<std::size_t>(place)];
      time += slow * static_cast<double>(load.chains[0].time.count) +
              static_cast<double>(load.chains[1].time.count);
    }
    part.passes.push_back(1e-7 * time * (1 + noise * random.normal()));
    part.step += part.passes.back();
  }
  return part;
}

void run_steps(BatchCorrection& correction, std::int64_t from, std::int64_t to, double slow) {
  for (std::int64_t step = from; step < to; ++step) {
    const Batch batch = make_batch(step);
    const std::vector<MeasuredPart> parts{measure(batch, slow)};
    correction.end_step(step * kSamples, batch.predicted, parts);
  }
}

/// How much dearer vision is beside the backbone than it was predicted, over a whole batch.
double learned(const BatchCorrection& correction, std::int64_t step) {
  const Batch batch = make_batch(step);
  double vision = 0, backbone = 0, vision_before = 0, backbone_before = 0;
  const auto known = correction.known_for(step * kSamples);
  for (const PredictedShare& share : batch.predicted.shares) {
    const Nanoseconds corrected = known ? known->correct(share) : share.time;
    (share.key.module == 0 ? vision : backbone) += static_cast<double>(corrected.count);
    (share.key.module == 0 ? vision_before : backbone_before) +=
        static_cast<double>(share.time.count);
  }
  return vision / backbone * backbone_before / vision_before;
}

TEST(BatchCorrection, LearnsWhichModuleIsSlowerThanPredicted) {
  for (const double slow : {0.6, 1.0, 2.5}) {
    SCOPED_TRACE(slow);
    BatchCorrection correction(kLag, kQuick);
    EXPECT_EQ(learned(correction, 0), 1);
    run_steps(correction, 0, 60, slow);
    EXPECT_EQ(correction.state().phase, CorrectionPhase::kOff) << "one replica gains nothing by it";
    EXPECT_NEAR(learned(correction, 70), slow, 0.01 * slow);
  }
}

TEST(BatchCorrection, LearnsItUnderNoiseAndWithSeveralSamplesInAMicrobatch) {
  constexpr std::int64_t kLarge = 64;  // samples of a batch
  for (const Tokens capacity : {Tokens{96}, Tokens{128}, Tokens{256}}) {
    for (const double slow : {0.6, 1.0, 1.5, 2.5}) {
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE(str(capacity, ", ", slow, ", seed ", seed));
        BatchCorrection correction(2 * kLarge);
        for (std::int64_t step = 0; step < 60; ++step) {
          const Batch batch =
              make_batch(step, kLarge, config::Packing::kBestFitDecreasing, capacity);
          const std::vector<MeasuredPart> parts{measure(batch, slow, /*noise=*/0.03, seed)};
          correction.end_step(step * kLarge, batch.predicted, parts);
        }
        EXPECT_NEAR(learned(correction, 10'000), slow, 0.05);
      }
    }
  }
}

TEST(BatchCorrection, PlansByWhatWasKnownAFixedNumberOfBatchesBefore) {
  BatchCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  const double known = learned(correction, 11);  // by the steps up to 9
  run_steps(correction, 10, 11, 0.5);            // ends while batch 11 waits
  EXPECT_EQ(learned(correction, 11), known);
  EXPECT_NE(learned(correction, 12), known);
}

TEST(BatchCorrection, LearnsNothingFromOtherSamplesThanPlanned) {
  BatchCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  const auto ratios = correction.state().ratios;
  const Batch batch = make_batch(10);
  std::vector<MeasuredPart> parts{measure(batch, 9)};
  parts[0].as_planned = false;
  correction.end_step(10 * kSamples, batch.predicted, parts);
  EXPECT_EQ(correction.state().ratios, ratios);
}

TEST(BatchCorrection, SwitchesItselfOffWhereItSavesNothing) {
  BatchCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 6 + 20, 2);  // one replica: no arrangement is better than another
  EXPECT_EQ(correction.state().phase, CorrectionPhase::kOff);
  EXPECT_NEAR(learned(correction, 40), 2, 0.02) << "what was learned stays in use";
}

TEST(BatchCorrection, GoesOnFromWhatItSaved) {
  BatchCorrection correction(kLag, kQuick);
  run_steps(correction, 0, 10, 2);
  BatchCorrection again(kLag, kQuick);
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
}  // namespace tributary::schedule
