#include "studies/methods/all_methods.h"

#include <algorithm>
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>

#include "core/error.h"
#include "studies/methods/plan_space.h"
#include "tests/studies/methods/small_problem.h"

namespace tributary::studies {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::map<std::string, double> solve_all(const TrainingProblem& problem) {
  std::map<std::string, double> values;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    values[std::string(baseline.name)] =
        1e-9 * double(baseline.solve(problem).certificate.value.count);
  }
  return values;
}

TEST(PipelineBaselines, GiveAPlanAboveTheBoundAndTheSameTwice) {
  const TrainingProblem problem = small_problem(1);
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    SCOPED_TRACE(baseline.name);
    const PipelineAnswer found = baseline.solve(problem);
    EXPECT_EQ(found.certificate.status, plan::Status::kFeasible);
    EXPECT_GE(found.certificate.value, found.certificate.lower_bound);
    EXPECT_GT(found.certificate.lower_bound.count, 0);
    EXPECT_GT(found.certificate.evaluations, 0);
    EXPECT_GT(found.busy_share, 0.1);
    EXPECT_LE(found.busy_share, 1 + 1e-9);
    EXPECT_FALSE(found.plan.empty());
    const PipelineAnswer again = baseline.solve(problem);
    EXPECT_EQ(again.plan, found.plan);
    EXPECT_EQ(again.certificate.value, found.certificate.value);
  }
}

TEST(PipelineBaselines, StandInTheOrderThatTheirRulesImply) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const std::map<std::string, double> value = solve_all(small_problem(seed));
    for (const auto& [name, seconds] : value) {
      // Sharded copies need no pipeline, which whole ones may; all others give the backbone less.
      if (name == "fsdp" || name == "orchmllm" || name == "best_of_methods") continue;
      EXPECT_GE(seconds, value.at("backbone_alone")) << name;
    }
    // Slower kernels and no overlap on the same plans.
    EXPECT_GE(value.at("pytorch_3d"), value.at("megatron_encoder_stage") / 0.9);
    EXPECT_GE(value.at("disttrain_batch_serial"), value.at("disttrain_batch_double"));
    EXPECT_GE(value.at("disttrain_batch_double"), value.at("disttrain_batch_double_lpt"));
    EXPECT_GE(value.at("fsdp"), value.at("orchmllm"));
    // One chunk a stage is plain 1F1B.
    EXPECT_LE(value.at("megatron_vpp"), value.at("megatron_uniform"));
    // Ours knows the plans of all methods whose steps take fresh features.
    for (const PipelineBaseline& baseline : pipeline_baselines()) {
      if (baseline.role != BaselineRole::kMethod) continue;
      EXPECT_LE(value.at("best_of_methods"), value.at(std::string(baseline.name))) << baseline.name;
    }
    // One part less is never faster here: batches wait, or samples come as they are.
    EXPECT_GE(value.at("flowtrain_without_pool"), value.at("flowtrain") * 0.999);
    EXPECT_GE(value.at("flowtrain_without_scheduler"), value.at("flowtrain") * 0.999);
    EXPECT_GE(value.at("flowtrain_without_allocator"), value.at("flowtrain") * 0.999);
    // Level 1 with every rank encoding all samples contains the plans of level 2 with less work.
    EXPECT_GE(value.at("loongforge_1"), value.at("loongforge_2") * 0.999);
  }
}

TEST(PipelineBaselines, TakeModulesWithDegreesOfTheirOwn) {
  for (const std::vector<std::int64_t>& backbone :
       std::vector<std::vector<std::int64_t>>{{1, 2, 4, 8}, {2}}) {
    TrainingProblem problem = small_problem(1);
    std::erase_if(problem.costs.encoder.degrees,
                  [](const DegreeCosts& degree) { return degree.tp != 1; });
    std::erase_if(problem.costs.backbone.degrees, [&](const DegreeCosts& degree) {
      return std::find(backbone.begin(), backbone.end(), degree.tp) == backbone.end();
    });
    for (const PipelineBaseline& baseline : pipeline_baselines()) {
      SCOPED_TRACE(baseline.name);
      const PipelineAnswer found = baseline.solve(problem);
      // Without a common degree some have no plan, and say which degrees they ask for.
      if (found.certificate.status == plan::Status::kInfeasible) {
        EXPECT_EQ(backbone.size(), 1U);
        EXPECT_THAT(found.certificate.limit, HasSubstr("tp"));
      } else {
        EXPECT_GE(found.certificate.value, found.certificate.lower_bound);
      }
    }
  }
}

TEST(PipelineBaselines, TheBackboneAloneDependsOnNothingOfTheEncoder) {
  const TrainingProblem problem = small_problem(1);
  const PipelineAnswer plain = solve_backbone_alone(problem);
  for (const double factor : {0.01, 10.0, 30.0}) {
    TrainingProblem other = problem;
    other.costs.encoder.sample_flops *= factor;
    const PipelineAnswer found = solve_backbone_alone(other);
    EXPECT_EQ(found.plan, plain.plan) << factor;
    EXPECT_EQ(found.certificate.value, plain.certificate.value) << factor;
  }
}

TEST(PipelineBaselines, DistTrainFindsTheBestOfItsWholeSpace) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const TrainingProblem problem = small_problem(seed);
    const Problem3d& costs = problem.costs;
    BatchRunner runner(problem);
    double min = std::numeric_limits<double>::infinity();
    for (std::int64_t devices = 1; devices < costs.devices; ++devices) {
      for (const Degrees& backbone : list_degrees(costs.backbone, costs.devices - devices, 32)) {
        const std::int64_t mine = costs.global_samples / backbone.dp;
        for (std::int64_t samples = 1; samples <= mine; ++samples) {
          for (const Degrees& encoder : list_degrees(costs.encoder, devices, 32)) {
            const Plan3d plan = {encoder, backbone, (mine + samples - 1) / samples, 0};
            if (!is_valid(costs, plan)) continue;
            double sum = 0;
            for (std::size_t batch = 0; batch < problem.batches.size(); ++batch)
              sum += run_separate(runner, batch, plan, Deal::kInOrder, true);
            min = std::min(min, sum / double(problem.batches.size()));
          }
        }
      }
    }
    const Nanoseconds found = solve_disttrain_microbatch(problem).certificate.value;
    EXPECT_NEAR(1e-9 * double(found.count), min, 1e-8);
  }
}

TEST(PipelineBaselines, SayThatABudgetEndedTheSearch) {
  for (const auto solve : {solve_disttrain_microbatch, solve_disttrain_batch_serial,
                           solve_disttrain_batch_double, solve_best_of_methods}) {
    TrainingProblem problem = small_problem(1);
    const plan::Certificate whole = solve(problem).certificate;
    EXPECT_EQ(whole.status, plan::Status::kFeasible);
    for (const std::int64_t budget : {0, 40, 400}) {
      problem.budget = budget;
      const PipelineAnswer found = solve(problem);
      EXPECT_EQ(found.certificate.status, plan::Status::kTruncated) << budget;
      EXPECT_GE(found.certificate.value, whole.value);
      EXPECT_EQ(found.certificate.lower_bound, whole.lower_bound);
    }
  }
}

TEST(PipelineBaselines, APartOfASpaceHasNothingBetter) {
  const TrainingProblem whole = small_problem(2);
  const auto value = [](const PipelineBaseline& baseline, const TrainingProblem& problem) {
    const plan::Certificate found = baseline.solve(problem).certificate;
    return found.status == plan::Status::kInfeasible ? std::numeric_limits<std::int64_t>::max()
                                                     : found.value.count;
  };
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    // These choose by formulas of their own; `best_of_methods` holds their plans too.
    if (baseline.name.starts_with("dflop") || baseline.name.starts_with("flowtrain") ||
        baseline.name == "best_of_methods")
      continue;
    SCOPED_TRACE(baseline.name);
    const std::int64_t best = value(baseline, whole);
    for (std::size_t mine = 0; mine < 4; ++mine) {
      for (std::size_t other = 0; other < 4; ++other) {
        TrainingProblem part = whole;
        part.costs.encoder.degrees = {whole.costs.encoder.degrees[mine]};
        part.costs.backbone.degrees = {whole.costs.backbone.degrees[other]};
        EXPECT_LE(best, value(baseline, part)) << "degrees " << mine << ", " << other;
      }
    }
  }
}

TEST(PipelineBaselines, WorkAheadIsOursOnlyWhereTheEncoderDoesNotTrain) {
  TrainingProblem problem = small_problem(1);
  problem.encoder_trains = false;
  const double frozen = solve_all(problem).at("best_of_methods");
  int ahead_of_batches = 0;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    if (baseline.role != BaselineRole::kBatchAhead) continue;
    ++ahead_of_batches;
    const double ahead =
        1e-9 * static_cast<double>(baseline.solve(problem).certificate.value.count);
    EXPECT_LE(frozen, ahead + 1e-9) << baseline.name;
  }
  EXPECT_GE(ahead_of_batches, 1);
}

TEST(PipelineBaselines, KeepToGivenDegreesInLoongForgesMethodsAlone) {
  TrainingProblem problem = small_problem(1);
  const std::map<std::string, double> free = solve_all(problem);
  problem.given = {.tp = 2, .pp = 2};
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    SCOPED_TRACE(baseline.name);
    const PipelineAnswer found = baseline.solve(problem);
    const std::string name(baseline.name);
    const double seconds = 1e-9 * double(found.certificate.value.count);
    if (name.starts_with("loongforge_")) {
      EXPECT_THAT(found.plan, HasSubstr("tp 2, pp 2, dp 2"));
      EXPECT_GE(seconds, free.at(name) * (1 - 1e-9));
    } else {
      EXPECT_EQ(seconds, free.at(name));
    }
  }
}

TEST(PipelineBaselines, NameTheGivenDegreesThatCannotBe) {
  TrainingProblem problem = small_problem(1);
  problem.given = {.tp = 3};
  EXPECT_THAT(solve_loongforge_1(problem).certificate.limit, HasSubstr("`tp` 3 as the study"));
  problem.given = {.pp = 1024};
  EXPECT_THAT(solve_loongforge_3(problem).certificate.limit, HasSubstr("`pp` 1024 as the study"));
  problem.given = {.tp = 3, .pp = 1024};
  const PipelineAnswer none = solve_loongforge_2(problem);
  EXPECT_EQ(none.certificate.status, plan::Status::kInfeasible);
  EXPECT_THAT(none.certificate.limit,
              HasSubstr("`tp` 3 `pp` 1024 as the study gives them: degrees: "
                        "no plan of 8 devices"));
  problem.given = {.tp = 2, .pp = 2};
  problem.costs.memory_bytes = 1;
  EXPECT_THAT(solve_loongforge_2(problem).certificate.limit,
              HasSubstr("`tp` 2 `pp` 2 as the study gives them: memory: tp 2, pp 2, dp 2, "));
  problem.given = {};
  EXPECT_THAT(solve_loongforge_2(problem).certificate.limit, testing::StartsWith("memory: tp "));
}

TEST(PipelineBaselines, EncodeAMicrobatchInEachGroupOfATensorParallelGroup) {
  // Level 2 with one stage, a frozen encoder that does not care for tp, and two groups: half of the
  // rounds, each with the longer one of two microbatches.
  TrainingProblem problem = small_problem(1);
  problem.costs.devices = 2;
  problem.costs.global_samples = 4;
  problem.costs.memory_bytes = 1e15;
  problem.given = {.tp = 2, .pp = 1};
  problem.batches = {{{1, 3200}, {3, 3200}, {2, 3200}, {2, 3200}}};
  problem.costs.encoder.forward_share = 1;
  problem.costs.encoder.gradient_share = 0;
  std::erase_if(problem.costs.encoder.degrees,
                [](const DegreeCosts& degree) { return degree.tp != 1; });
  set_mean_shapes(problem);
  BatchRunner runner(problem);
  const double found = 1e-9 * double(solve_loongforge_2(problem).certificate.value.count);
  const auto encode = [&](double tiles) { return runner.encoder_seconds(1, tiles); };
  const auto decode = [&](double samples) { return runner.backbone_seconds(2, 3200 * samples); };
  const double of_four = encode(3) + encode(2) + 4 * decode(1);
  const double of_two = std::max(encode(1 + 3), encode(2 + 2)) + 2 * decode(2);
  const double of_one = encode(8) + decode(4);
  EXPECT_NEAR(found, std::min({of_four, of_two, of_one}), 1e-6);
}

TEST(PipelineBaselines, SayThatNothingFits) {
  TrainingProblem problem = small_problem(1);
  problem.costs.memory_bytes = 1e6;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    SCOPED_TRACE(baseline.name);
    const PipelineAnswer found = baseline.solve(problem);
    EXPECT_EQ(found.certificate.status, plan::Status::kInfeasible);
    EXPECT_THAT(found.certificate.limit, HasSubstr("memory"));
  }
}

/// Bytes that the text says are missing.
double excess_of(const std::string& limit) {
  long long excess = 0;
  const std::size_t at = limit.find(" B above the ");
  EXPECT_NE(at, std::string::npos) << limit;
  std::sscanf(limit.c_str() + limit.rfind(' ', at - 1), " %lld", &excess);
  return double(excess);
}

TEST(PipelineBaselines, AreShortOfAsManyBytesAsMakeAPlanFit) {
  // With 3 devices modules of their own may fit alone, but not beside each other.
  for (const auto& [devices, memory] : {std::pair{8, 1e6}, {8, 5e9}, {3, 1e6}, {3, 60e9}}) {
    TrainingProblem problem = small_problem(1);
    problem.costs.devices = devices;
    problem.costs.memory_bytes = memory;
    for (const PipelineBaseline& baseline : pipeline_baselines()) {
      SCOPED_TRACE(testing::Message()
                   << baseline.name << ", " << devices << " devices, " << memory << " bytes");
      const PipelineAnswer none = baseline.solve(problem);
      ASSERT_EQ(none.certificate.status, plan::Status::kInfeasible);
      const double excess = excess_of(none.certificate.limit);
      EXPECT_NEAR(none.min_bytes, memory + excess, 1);
      // A byte less than that is too little, a byte more is enough.
      TrainingProblem other = problem;
      other.costs.memory_bytes = none.min_bytes - 1;
      EXPECT_EQ(baseline.solve(other).certificate.status, plan::Status::kInfeasible);
      other.costs.memory_bytes = none.min_bytes + 1;
      EXPECT_EQ(baseline.solve(other).certificate.status, plan::Status::kFeasible);
    }
  }
}

TEST(PipelineBaselines, SayWhichFormTheDevicesLack) {
  TrainingProblem problem = small_problem(1);
  problem.costs.devices = 1;
  for (const PipelineBaseline& baseline : pipeline_baselines()) {
    SCOPED_TRACE(baseline.name);
    const PipelineAnswer found = baseline.solve(problem);
    ASSERT_EQ(found.certificate.status, plan::Status::kInfeasible);
    EXPECT_THAT(
        found.certificate.limit,
        testing::AnyOf(testing::StartsWith("memory: "),
                       testing::StartsWith("degrees: no plan of 1 devices for 32 samples")));
  }
  EXPECT_THAT(solve_dflop(problem).certificate.limit, HasSubstr("each on a part of the devices"));
  EXPECT_THAT(solve_flowtrain(problem).certificate.limit, HasSubstr("divides the samples"));
  EXPECT_THAT(solve_pytorch_3d(problem).certificate.limit, HasSubstr("at least a stage for each"));
  problem.costs.devices = 67;  // no pp of 32 layers, no dp of 32 samples
  EXPECT_THAT(solve_backbone_alone(problem).certificate.limit,
              HasSubstr("no plan of 67 devices for 32 samples has this method's form: all devices "
                        "as tp x pp x dp of backbone, tp one of 1, 2, 4, 8, pp up to 32"));
  EXPECT_THAT(solve_fsdp(problem).certificate.limit, HasSubstr("a sample for each device"));
}

TEST(PipelineBaselines, EqualTheClosedFormOnEqualSamples) {
  // One device for each module and equal samples: every round takes the same, and a stage may not
  // start before the one before it has ended.
  TrainingProblem problem = small_problem(1);
  problem.costs.devices = 2;
  problem.costs.memory_bytes = 1e15;
  problem.batches = {std::vector<SampleWork>(32, {14, 3200})};
  set_mean_shapes(problem);
  BatchRunner runner(problem);
  const double encoder = runner.encoder_seconds(1, 14 * 4);
  const double backbone = runner.backbone_seconds(1, 3200 * 4);
  const Plan3d plan = {{1, 1, 1}, {1, 1, 1}, 8, 0};
  const double found = run_separate(runner, 0, plan, Deal::kInOrder, false);
  // 1F1B of two stages: the longer one runs without a gap but for the other's forward and backward.
  EXPECT_NEAR(found, 8 * std::max(encoder, backbone) + std::min(encoder, backbone), 1e-6);
}

TEST(TrainingProblem, NamesWhatCannotBeUsed) {
  const auto refuses = [](auto change, const char* words) {
    TrainingProblem problem = small_problem(1);
    change(problem);
    EXPECT_THAT([&] { check_problem(problem); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses([](TrainingProblem& p) { p.batches.clear(); }, "no batch to judge plans by");
  refuses([](TrainingProblem& p) { p.batches[1].pop_back(); },
          "where: batch 1; found: 31 samples; expected: 32");
  refuses([](TrainingProblem& p) { p.batches[0][3].tokens = std::nan(""); }, "where: batch 0");
  refuses([](TrainingProblem& p) { p.bytes_per_second = 0; }, "where: bytes_per_second; found: 0");
  refuses([](TrainingProblem& p) { p.costs.encoder.forward_share = 1.5; },
          "where: forward_share; found: 1.5");
  refuses([](TrainingProblem& p) { p.costs.encoder.gradient_share = -1; },
          "where: gradient_share; found: -1");
  refuses([](TrainingProblem& p) { p.feature_bytes = -1; }, "where: feature_bytes; found: -1");
}

TEST(DrawBatches, GivesTheMixtureOfTheReference) {
  const auto batches = draw_batches(1, 20'000, 7);
  double tiles = 0;
  double tokens = 0;
  for (const SampleWork& sample : batches[0]) {
    tiles += sample.tiles / 20'000;
    tokens += sample.tokens / 20'000;
  }
  // 46 photos of 5, 19 documents of 16.5, 60 of 2 to 16 images, 60 videos of 17.5 tiles.
  EXPECT_NEAR(tiles, (46 * 5 + 19 * 16.5 + 60 * 3.7 + 60 * 17.5) / 185, 0.2);
  EXPECT_NEAR(tokens, 3637, 60);
  EXPECT_EQ(draw_batches(1, 5, 7)[0][3].tokens, batches[0][3].tokens);
}

}  // namespace
}  // namespace tributary::studies
