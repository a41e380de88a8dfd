#include "simulate/simulate.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "simulate/trace_of.h"
#include "tests/simulate/plan_case.h"

namespace tributary::simulate {
namespace {

using Kind = SampleSource::Kind;

std::int64_t step_of(const config::Plan& plan, const config::Cluster& cluster,
                     const SimulationOptions& options = {}) {
  const TableCosts costs(plan.modules.size() > 1);
  return simulate(plan, costs, cluster, options).steps.front().count;
}

TEST(Simulate, AStepOfEqualMicrobatchesIsTheClosedForm) {
  config::Cluster cluster = small_cluster(8);
  cluster.levels = {{.name = "all", .ranks = 8, .bytes_per_s = 1e18}};
  // 8 microbatches over 2 stages: forward 11 and backward 22 ns a token of 1,000.
  const std::int64_t passes = (8 + 2 - 1) * 33'000;
  EXPECT_NEAR(double(step_of(text_plan(), cluster)), double(passes + 50'000 + 20'000), 20.0);
}

/// Equal sizes for all samples: every replica does the same, yet none is folded.
SampleSource equal_samples(std::int64_t tokens, std::int64_t patches) {
  return {.kind = Kind::kRecorded,
          .recorded = {
              .sizes = {{.tokens = tokens, .patches = patches, .items = patches > 0 ? 1 : 0}}}};
}

TEST(Simulate, FoldedReplicasGiveTheSameStep) {
  // 64 samples over 16 microbatches: four of 250 tokens are a full one of 1,000.
  const config::Cluster cluster = small_cluster(8);
  EXPECT_EQ(step_of(text_plan(), cluster, {.samples = equal_samples(250, 0)}),
            step_of(text_plan(), cluster));
}

TEST(Simulate, MoreBandwidthIsNeverSlower) {
  config::Cluster cluster = small_cluster(8);
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const double rate : {1e8, 1e9, 1e10, 1e11}) {
    for (config::LinkLevel& level : cluster.levels) level.bytes_per_s = rate;
    const std::int64_t step = step_of(vision_plan(), cluster, {.samples = equal_samples(250, 500)});
    EXPECT_LE(step, before);
    before = step;
  }
}

TEST(Simulate, EqualDevicesMayBeExchanged) {
  config::Plan plan = vision_plan();
  const config::Cluster cluster = small_cluster(8);
  const SimulationOptions options{.seed = 3, .samples = {.kind = Kind::kMixture}};
  const std::int64_t step = step_of(plan, cluster, options);
  for (config::ModulePlan& module : plan.modules)
    for (std::int64_t& rank : module.ranks) rank = (rank + 4) % 8;
  EXPECT_EQ(step_of(plan, cluster, options), step);
}

TEST(Simulate, ReplaysBitEqualFromItsSeed) {
  const config::Cluster cluster = small_cluster(8);
  const TableCosts costs(true);
  config::Plan plan = vision_plan();
  plan.batch.capacity_tokens = {16'384};
  SimulationOptions options{.steps = 5,
                            .seed = 7,
                            .samples = {.kind = Kind::kMixture},
                            .disturbance = {.straggler_share = 0.2,
                                            .straggler_factor = 1.5,
                                            .anomaly_share = 0.1,
                                            .anomaly_factor = 2}};
  const Simulation first = simulate(plan, costs, cluster, options);
  const Simulation again = simulate(plan, costs, cluster, options);
  EXPECT_EQ(first.steps, again.steps);
  EXPECT_EQ(trace_of(first, "p", "c"), trace_of(again, "p", "c"));
  options.seed = 8;
  EXPECT_NE(simulate(plan, costs, cluster, options).steps, first.steps);
}

TEST(Simulate, ReportsTheDistributionAndShowsTheMedian) {
  const TableCosts costs(true);
  config::Plan plan = vision_plan();
  plan.batch.capacity_tokens = {16'384};
  const Simulation of =
      simulate(plan, costs, small_cluster(8), {.steps = 9, .samples = {.kind = Kind::kMixture}});
  std::vector<Nanoseconds> sorted = of.steps;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(of.distribution.min, sorted.front());
  EXPECT_EQ(of.distribution.median, sorted[4]);
  EXPECT_EQ(of.distribution.max, sorted.back());
  EXPECT_EQ(of.times.makespan, sorted[4]);
  EXPECT_LE(bound_of(of).value(), of.times.makespan);
  EXPECT_GT(of.distribution.deviation.count, 0);
}

TEST(Simulate, EveryRankIsAccountedFor) {
  const TableCosts costs(true);
  const Simulation of = simulate(vision_plan(), costs, small_cluster(8), {});
  EXPECT_EQ(of.ranks, 8);
  EXPECT_EQ(of.program.lanes(), 3);  // two stages and an encoder, each for its replicas
  for (const LaneAccount& account : of.accounts) EXPECT_EQ(account.total(), of.times.makespan);
}

TEST(Simulate, CountsMfuByTheFlopsOfAllReplicas) {
  const TableCosts costs(false);
  const Simulation of = simulate(text_plan(), costs, small_cluster(4), {});
  // Two stages, two replicas, eight microbatches of 1,000 tokens, a million FLOPs a token.
  EXPECT_DOUBLE_EQ(of.utilisation.flops.all.causal, 2 * 2 * 8 * 1e9);
  EXPECT_NEAR(of.utilisation.mfu, 32e9 / (1e-9 * double(of.times.makespan.count) * 4 * 1e14),
              1e-12);
}

TEST(Simulate, PeakMemoryIsWhat1F1BKeeps) {
  const TableCosts costs(false);
  const Simulation of = simulate(text_plan(), costs, small_cluster(4), {});
  EXPECT_EQ(of.memory[0].activations.count, 2 * 100'000);  // two in flight on the first stage
  EXPECT_EQ(of.memory[1].activations.count, 100'000);
  EXPECT_EQ(of.memory[0].optimizer.count, 6 << 20);
  EXPECT_FALSE(of.out_of_memory.has_value());
}

TEST(Simulate, APlanThatDoesNotFitIsAResultWithItsParts) {
  config::Cluster cluster = small_cluster(4);
  cluster.device.memory = {8 << 20};
  const TableCosts costs(false);
  const Simulation of = simulate(text_plan(), costs, cluster, {});
  ASSERT_TRUE(of.out_of_memory.has_value());
  EXPECT_EQ(of.out_of_memory->lane, "backbone replica 0 stage 0");
  EXPECT_EQ(of.out_of_memory->available.count, 8 << 20);
  EXPECT_EQ(of.out_of_memory->needed, of.memory[0].total());
  EXPECT_THAT(trace_of(of, "p", "c").summary.out_of_memory,
              testing::HasSubstr("optimizer 6291456 B"));
}

TEST(Simulate, AShortageOfAnyStepIsFound) {
  // One sample of a hundred is large; the step that draws it is not the median.
  RecordedSizes recorded{.sizes = std::vector<SampleSize>(99, {.tokens = 100})};
  recorded.sizes.push_back({.tokens = 100'000});
  config::Cluster cluster = small_cluster(8);
  cluster.device.memory = {15 << 20};
  const TableCosts costs(false);
  config::Plan plan = text_plan();
  plan.batch.capacity_tokens = {100'000};
  SimulationOptions options{
      .steps = 9, .seed = 1, .samples = {.kind = Kind::kRecorded, .recorded = recorded}};
  const Simulation simulation = simulate(plan, costs, cluster, options);
  ASSERT_GT(simulation.distribution.max, simulation.distribution.median);
  for (const LaneMemory& lane : simulation.memory) ASSERT_LE(lane.total(), cluster.device.memory);
  ASSERT_TRUE(simulation.out_of_memory);
  EXPECT_GT(simulation.steps[simulation.out_of_memory->step], simulation.distribution.median);
}

TEST(Simulate, AStepLastsUntilTheNextOneIsPlanned) {
  const TableCosts costs(false);
  const Nanoseconds planning{3'000'000'000};
  const Simulation simulation =
      simulate(text_plan(), costs, small_cluster(8), {.steps = 2, .scheduler = planning});
  EXPECT_EQ(simulation.distribution.median, planning);
  const config::Trace trace = trace_of(simulation, "plan", "cluster");
  EXPECT_EQ(trace.summary.step, planning);
  for (const config::TraceLane& lane : trace.lanes)
    EXPECT_EQ(lane.busy + lane.communication + lane.idle, planning);
  Nanoseconds path;
  for (const auto& [kind, time] : trace.summary.critical_path) path += time;
  EXPECT_EQ(path, planning);
}

TEST(Simulate, AllRanksSlowIsAStepThatMuchLonger) {
  config::Cluster cluster = small_cluster(4);
  cluster.levels = {{.name = "all", .ranks = 4, .bytes_per_s = 1e18}};
  const std::int64_t meetings = 70'000;
  const std::int64_t usual = step_of(text_plan(), cluster) - meetings;
  const std::int64_t slow =
      step_of(text_plan(), cluster,
              {.samples = equal_samples(250, 0),
               .disturbance = {.straggler_share = 1, .straggler_factor = 2}}) -
      meetings;
  EXPECT_NEAR(double(slow), 2 * double(usual), 40.0);
}

TEST(PlayFailures, CountsTheWorkSinceTheCheckpoint) {
  const std::vector<Nanoseconds> steps(10'000, Nanoseconds{1'000'000'000});
  EXPECT_EQ(play_failures({}, 8, steps, 1).goodput, 1);
  const FailureCost cost = play_failures(
      {.hours_between_failures = 100, .restart_s = 60, .checkpoint_steps = 50}, 3600, steps, 1);
  // One failure in 100 seconds of the job; 200 times 50 seconds of work, of which e^0.5 - 1 fail.
  EXPECT_GT(cost.failures, 90);
  EXPECT_LT(cost.failures, 170);
  EXPECT_NEAR(cost.goodput, 10'000 / (10'000 + cost.lost_s), 1e-12);
  EXPECT_GT(cost.lost_s, double(cost.failures) * 60);
}

TEST(PlayFailures, TakesTheTimeOfARenewalProcess) {
  constexpr double kWork = 10;  // seconds between checkpoints
  constexpr double kRestart = 1.7;
  constexpr int kCheckpoints = 2000;
  const std::vector<Nanoseconds> steps(5 * kCheckpoints, Nanoseconds{2'000'000'000});
  for (const double between : {1000.0, 30.0, 10.0, 4.0, 2.0}) {  // seconds, of the job
    const double expected = kWork / ((between + kRestart) * (std::exp(kWork / between) - 1));
    double goodput = 0;
    constexpr int kSeeds = 10;
    for (int seed = 0; seed < kSeeds; ++seed)
      goodput += play_failures({.hours_between_failures = 8 * between / 3600,
                                .restart_s = kRestart,
                                .checkpoint_steps = 5},
                               8, steps, seed)
                     .goodput;
    EXPECT_NEAR(goodput / kSeeds, expected, 0.03 * expected) << between;
  }
}

TEST(PlayFailures, CountsWorkBehindTheLastCheckpoint) {
  const std::vector<Nanoseconds> steps(7, Nanoseconds{1'000'000'000});
  // Once in a while both the five steps and the two behind them fail.
  double lost = 0;
  constexpr int kSeeds = 20'000;
  for (int seed = 0; seed < kSeeds; ++seed)
    lost += play_failures(
                {.hours_between_failures = 10.0 / 3600, .restart_s = 3, .checkpoint_steps = 5}, 1,
                steps, seed)
                .lost_s;
  const double expected = 13 * (std::exp(0.5) - 1 + std::exp(0.2) - 1) - 7;
  EXPECT_NEAR(lost / kSeeds, expected, 0.03 * expected);
}

TEST(PlayFailures, SaysThatAJobMakesNoProgress) {
  const std::vector<Nanoseconds> steps(3, Nanoseconds{1'000'000'000});
  const FailureCost cost = play_failures({.hours_between_failures = 1e-9}, 8, steps, 1);
  EXPECT_EQ(cost.failures, 10'000);
  EXPECT_EQ(cost.goodput, 0);
}

TEST(DealSamples, EachSampleIsOnceOnEachModule) {
  const config::Plan plan = vision_plan();
  const schedule::Pipeline pipeline{
      .modules = {{.name = "backbone", .replicas = 2}, {.name = "vision", .replicas = 3}},
      .edges = {{.from = 1, .to = 0}},
      .microbatches = 8};
  const std::vector<SampleSize> samples = draw_mixture(5, 0, 64);
  const StepShapes shapes =
      deal_samples(pipeline, std::vector<cost::Media>(2, cost::Media::kPatches), samples,
                   in_turns(samples.size(), 16));
  double tokens = 0;
  double patches = 0;
  for (const SampleSize& sample : samples) {
    tokens += double(sample.tokens);
    patches += double(sample.patches);
  }
  for (int round = 0; round < 8; ++round) {
    double at_backbone = 0;
    double at_encoder = 0;
    for (int replica = 0; replica < 2; ++replica) {
      tokens -= shapes[0][replica][round].backbone.tokens;
      at_backbone += shapes[0][replica][round].encoder.tokens;
    }
    for (int replica = 0; replica < 3; ++replica)
      at_encoder += shapes[1][replica][round].encoder.tokens;
    EXPECT_EQ(at_backbone, at_encoder);  // the samples of a round, whoever encodes them
    patches -= at_encoder;
  }
  EXPECT_EQ(tokens, 0);
  EXPECT_EQ(patches, 0);
}

TEST(DealSamples, SoundGoesToItsEncoderInLevelParts) {
  const schedule::Pipeline pipeline{
      .modules = {{.name = "audio", .replicas = 3}, {.name = "backbone", .replicas = 2}},
      .edges = {{.from = 0, .to = 1}},
      .microbatches = 4};
  const std::vector<cost::Media> media = {cost::Media::kFrames, cost::Media::kPatches};
  const std::vector<SampleSize> samples = draw_mixture(5, 0, 64, MixtureSound::kBesidePictures);
  std::vector<std::int32_t> buckets;
  for (std::int32_t i = 0; i < 64; ++i) buckets.push_back(i % 8);
  const StepShapes shapes = deal_samples(pipeline, media, samples, buckets);
  double largest = 0;
  for (const SampleSize& sample : samples) largest = std::max(largest, double(sample.frames));
  for (int round = 0; round < 4; ++round) {
    double all = 0;
    double max = 0;
    for (const std::vector<cost::MicrobatchShape>& replica : shapes[0]) {
      all += replica[round].audio.tokens;
      max = std::max(max, replica[round].audio.tokens);
    }
    EXPECT_EQ(all, shapes[1][0][round].audio.tokens + shapes[1][1][round].audio.tokens);
    EXPECT_LE(max, std::max(largest, all / 3 * 1.2)) << "round " << round;
  }
}

TEST(DrawRecorded, DrawsAsOftenAsSeen) {
  const RecordedSizes recorded = sizes_of(
      {.source = "test",
       .bins = {{.samples = 3,
                 .shape = {.tokens = {10}, .target_tokens = {1}, .images = {}, .videos = {}}},
                {.samples = 1,
                 .shape = {.tokens = {20},
                           .target_tokens = {1},
                           .images = {{.time = 1, .rows = 2, .columns = 4}},
                           .videos = {{.time = 3, .rows = 2, .columns = 2}},
                           .sounds = {{1, 1, 80}, {1, 1, 120}}}}}});
  EXPECT_EQ(recorded.sizes[1], (SampleSize{20, 20, 4, 100, 2}));
  int rare = 0;
  for (const SampleSize& sample : draw_recorded(recorded, 1, 0, 10'000))
    rare += sample.tokens == 20 ? 1 : 0;
  EXPECT_NEAR(rare, 2'500, 150);
}

TEST(DrawMixture, FollowsTheReferenceStatistics) {
  double tiles = 0;
  double tokens = 0;
  const std::vector<SampleSize> samples = draw_mixture(1, 0, 20'000);
  for (const SampleSize& sample : samples) {
    tiles += double(sample.items);
    tokens += double(sample.tokens);
    EXPECT_EQ(sample.patches, 729 * sample.items);
  }
  // 46 : 19 : 60 : 60 of 5, 16.5, about 3.7 and 17.5 tiles.
  EXPECT_NEAR(tiles / 20'000, (46 * 5 + 19 * 16.5 + 60 * 3.7 + 60 * 17.5) / 185, 0.3);
  EXPECT_GT(tokens / 20'000, 2500);
  EXPECT_LT(tokens / 20'000, 4500);
  EXPECT_EQ(samples, draw_mixture(1, 0, 20'000));
}

TEST(DrawMixture, HasSoundBesideTheSamePictures) {
  const std::vector<SampleSize> silent = draw_mixture(1, 0, 20'000);
  const std::vector<SampleSize> samples = draw_mixture(1, 0, 20'000, MixtureSound::kBesidePictures);
  EXPECT_EQ(samples, draw_mixture(1, 0, 20'000, MixtureSound::kBesidePictures));
  double heard = 0;
  double frames = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const SampleSize& sample = samples[i];
    SampleSize own = silent[i];
    own.tokens += sample.frames / 2;
    own.frames = sample.frames;
    own.clips = sample.frames > 0 ? 1 : 0;
    EXPECT_EQ(sample, own);
    if (sample.frames == 0) continue;
    heard += 1;
    frames += double(sample.frames);
    EXPECT_GE(sample.frames, 2 * 50);
    EXPECT_LE(sample.frames, 31 * 50);
  }
  // Videos, 60 of 185, of 17.5 s; a quarter of the others, of (30 - 2) / log(15) s.
  EXPECT_NEAR(heard / 20'000, (60 + 0.25 * 125) / 185, 0.02);
  EXPECT_NEAR(frames / 20'000, 50 * (60 * 17.5 + 0.25 * 125 * 28 / std::log(15.0)) / 185, 10);
}

template <class Call>
void expect_refusal(const Call& call, const std::string& words) {
  EXPECT_THAT(call, testing::ThrowsMessage<Error>(testing::HasSubstr(words)));
}

TEST(Simulate, NamesTheKeyOfWhatCannotBeUsed) {
  const config::Cluster cluster = small_cluster(8);
  const auto with = [&](config::Cluster changed, SimulationOptions options = {}) {
    return [changed, options] { (void)step_of(vision_plan(), changed, options); };
  };
  config::Cluster changed = cluster;
  changed.devices = 6;
  expect_refusal(with(changed),
                 "where: cluster test devices; found: 6 devices; expected: at least 8");
  changed = cluster;
  changed.levels[0].bytes_per_s = 0;
  expect_refusal(with(changed), "where: cluster.levels.0.bytes_per_s; found: 0");
  changed.levels[0].bytes_per_s = std::nan("");
  expect_refusal(with(changed), "where: cluster.levels.0.bytes_per_s; found: nan");
  changed.levels.clear();
  expect_refusal(with(changed), "where: cluster.levels; expected: at least one level");
  changed = cluster;
  changed.device.matrix_flops_per_s = std::numeric_limits<double>::infinity();
  expect_refusal(with(changed), "where: cluster.device.matrix_flops_per_s; found: inf");
  expect_refusal(with(cluster, {.steps = 0}), "where: steps; found: 0; expected: 1 to 1000000");
  expect_refusal(with(cluster, {.disturbance = {.straggler_share = 1.5}}),
                 "where: stragglers; found: 1.5; expected: 0 to 1");
  expect_refusal(with(cluster, {.disturbance = {.anomaly_factor = std::nan("")}}),
                 "where: anomaly_factor; found: nan");
  expect_refusal(with(cluster, {.samples = {.kind = Kind::kRecorded}}),
                 "no sample sizes to draw from");
  expect_refusal(with(cluster, {.samples = {.kind = Kind::kRecorded,
                                            .recorded = {.sizes = {{.tokens = 1001}}}}}),
                 "where: batch.capacity_tokens; found: 1000 tokens; expected: at least the 1001 "
                 "tokens of the sample");
  config::Plan plan = vision_plan();
  plan.batch.capacity_tokens = {700};
  expect_refusal([&] { (void)step_of(plan, cluster, {.samples = {.kind = Kind::kMixture}}); },
                 "where: batch.capacity_tokens; found: 700 tokens");
}

}  // namespace
}  // namespace tributary::simulate
