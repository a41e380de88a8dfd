#include <gtest/gtest.h>
#include <numeric>

#include "tests/simulate/engine/run_ahead_case.h"
#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

/// Stages and replicas of a frozen encoder and of the backbone behind it.
struct Degrees {
  int encoder_stages = 1;
  int encoders = 1;
  int stages = 1;
  int backbones = 1;
};

config::Plan plan_of(const Degrees& degrees) {
  const auto stages_of = [](int stages, const char* two) { return stages == 1 ? "" : two; };
  const int trains = degrees.stages * degrees.backbones;
  return config::parse_plan(
      str(R"({"format": "tributary.plan/1", "modules": {"vision": {"ranks": ")", trains, "-",
          trains + degrees.encoder_stages * degrees.encoders - 1, R"(", "mesh": {"pp": )",
          degrees.encoder_stages, R"(, "dp_shard": )", degrees.encoders, "},",
          stages_of(degrees.encoder_stages, R"("stages": [["0-1"], ["2-3"]],)"),
          R"("placement": "flow", "train": "frozen"}, "backbone": {"ranks": "0-)", trains - 1,
          R"(", "mesh": {"pp": )", degrees.stages, R"(, "dp_shard": )", degrees.backbones, "}",
          stages_of(degrees.stages, R"(, "stages": [["embed", "0-1"], ["2-3", "head"]])"), R"(}},
          "edges": [{"from": "vision", "to": "backbone", "via": "pool"}],
          "batch": {"global_samples": 64, "microbatches": 8, "capacity_tokens": 1000}})"),
      "plan.json");
}

/// A message starts as slowly everywhere.
config::Cluster even_cluster() {
  config::Cluster cluster = small_cluster(16);
  for (config::LinkLevel& level : cluster.levels) level.message_start_s = 1e-9 * kLatency;
  return cluster;
}

/// One replica of one module by itself, by events: when each of its stages is done.
std::vector<Nanoseconds> run_chain(int stages, bool trains, const Step& microbatches,
                                   const std::vector<Nanoseconds>& begins) {
  schedule::Pipeline pipeline{.modules = {{.name = "chain", .stages = stages}},
                              .edges = {},
                              .microbatches = static_cast<int>(microbatches.size()),
                              .hop = {kLatency}};
  pipeline.modules[0].trains.assign(static_cast<std::size_t>(stages), trains);
  StepCase of = make_case(pipeline);
  for (int action = 0; action < of.program.actions(); ++action) {
    if (of.program.kind(action) != StepKind::kPass) continue;
    const cost::MicrobatchShape& shape = microbatches[of.program.action(action).microbatch];
    const auto tokens = static_cast<std::int64_t>(shape.backbone.tokens);
    const bool is_forward = of.program.action(action).op == schedule::Op::kForward;
    of.load.duration[action] = {is_forward ? tokens : 2 * tokens};
    if (!trains) of.load.duration[action] = {static_cast<std::int64_t>(shape.encoder.tokens)};
  }
  of.load.begins = begins;
  const StepTimes times = run_events(of.program, of.load, of.network);
  std::vector<Nanoseconds> done;
  for (int lane = 0; lane < stages; ++lane)
    done.push_back(times.actions[of.program.first_action(lane + 1) - 1].end);
  return done;
}

/// Steps in a row: a batch is encoded by all replicas, arrives, and is trained by all. On a clock
/// that goes on over the steps.
class BatchRecursion {
 public:
  BatchRecursion(const Degrees& degrees, std::size_t ahead)
      : degrees_(degrees),
        ahead_(ahead),
        free_(static_cast<std::size_t>(degrees.encoders),
              std::vector<Nanoseconds>(static_cast<std::size_t>(degrees.encoder_stages))) {}

  /// Gives the time of the step.
  Nanoseconds play(const StepShapes& shapes) {
    Nanoseconds earliest;
    if (ahead_ == 0) earliest = trained_;
    if (ahead_ > 0 && begun_.size() >= ahead_) earliest = begun_[begun_.size() - ahead_];
    Nanoseconds encoded;
    for (int encoder = 0; encoder < degrees_.encoders; ++encoder) {
      for (Nanoseconds& each : free_[encoder]) each = std::max(each, earliest);
      free_[encoder] =
          run_chain(degrees_.encoder_stages, false, shapes[1][encoder], free_[encoder]);
      encoded = std::max(encoded, free_[encoder].back());
    }
    // A replica sends to all, or gets from all, one message after the other.
    const std::int64_t messages = std::max(degrees_.encoders, degrees_.backbones);
    const Nanoseconds begin = std::max(encoded + Nanoseconds{kLatency * messages}, trained_);
    begun_.push_back(begin);
    const std::vector<Nanoseconds> begins(static_cast<std::size_t>(degrees_.stages), begin);
    Nanoseconds done;
    for (int replica = 0; replica < degrees_.backbones; ++replica)
      for (const Nanoseconds each : run_chain(degrees_.stages, true, shapes[0][replica], begins))
        done = std::max(done, each);
    const Nanoseconds before = trained_;
    trained_ = done + Nanoseconds{kOptimizer};
    return trained_ - before;
  }

 private:
  const Degrees degrees_;
  const std::size_t ahead_;
  std::vector<std::vector<Nanoseconds>> free_;  // [encoders][stages]
  std::vector<Nanoseconds> begun_;
  Nanoseconds trained_;
};

/// Microbatches of any size for each replica.
std::vector<StepShapes> draw_shapes(RandomStream& random, const Degrees& degrees) {
  const std::int64_t max_patches = random.between(100, 9000);
  std::vector<StepShapes> steps(1 + random.below(4));
  for (StepShapes& step : steps) {
    const std::uint64_t microbatches = 1 + random.below(8);
    for (const int replicas : {degrees.backbones, degrees.encoders}) {
      auto& module = step.emplace_back(static_cast<std::size_t>(replicas));
      for (Step& replica : module)
        for (std::uint64_t i = 0; i < microbatches; ++i)
          replica.push_back(shape_of(random.between(1, max_patches), random.between(1, 2000)));
    }
  }
  return steps;
}

TEST(WholePipelines, FollowTheRecursionOverStagesAndUnequalReplicas) {
  int settled = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    RandomStream random(seed, "whole pipelines");
    const auto degree = [&](int max) { return static_cast<int>(random.between(1, max)); };
    const Degrees degrees{.encoder_stages = degree(2),
                          .encoders = degree(3),
                          .stages = degree(2),
                          .backbones = degree(3)};
    const auto ahead = static_cast<int>(random.below(4));
    const std::vector<StepShapes> steps = draw_shapes(random, degrees);
    const Simulation of = simulate(plan_of(degrees), PlainCosts(), even_cluster(),
                                   {.steps = std::ssize(steps),
                                    .samples = {.kind = SampleSource::Kind::kGiven, .given = steps},
                                    .network = {.share_links = false},
                                    .batches_ahead = ahead});
    if (of.unsettled) continue;
    ++settled;
    BatchRecursion recursion(degrees, static_cast<std::size_t>(ahead));
    for (int warm_up = 0; warm_up < 40; ++warm_up) (void)recursion.play(steps.front());
    std::vector<Nanoseconds> expected;
    for (const StepShapes& step : steps) expected.push_back(recursion.play(step));
    EXPECT_EQ(of.steps, expected) << "seed " << seed << ", " << ahead << " ahead";
  }
  EXPECT_GT(settled, 140);
}

/// So long for each pass of the encoders, and of the backbone behind them.
void set_passes(StepCase& of, int encoders, std::int64_t encode, std::int64_t train) {
  for (int action = 0; action < of.program.actions(); ++action)
    if (of.program.kind(action) == StepKind::kPass)
      of.load.duration[action] = {of.program.lane_of(action) < encoders ? encode : train};
}

/// Encoders whose features all go into one backbone through its port, one byte a nanosecond.
StepCase features_through_a_port(int encoders, int microbatches, std::int64_t encode,
                                 std::int64_t bytes) {
  const schedule::Pipeline pipeline{
      .modules = {{.name = "vision", .replicas = encoders, .trains = {false}},
                  {.name = "backbone"}},
      .edges = {{.from = 0, .to = 1}},
      .microbatches = microbatches};
  StepCase of = make_case(pipeline, {}, {true});
  set_passes(of, encoders, encode, 100);
  of.load.bytes.assign(of.program.messages().size(), {bytes});
  of.network.bytes_per_ns = {1};
  for (Route& route : of.network.routes) {
    route.bytes_per_ns = 1;
    route.links = {{.link = 0}};
  }
  return of;
}

TEST(WholePipelines, APortGivesABatchOnWhenAllItsBytesAreThrough) {
  for (int encoders = 1; encoders <= 4; ++encoders) {
    for (const int microbatches : {1, 3, 8}) {
      // Each is encoded faster than its bytes get through: once it works, the port never rests.
      const StepCase of = features_through_a_port(encoders, microbatches, 700, 1000);
      const std::int64_t messages = std::int64_t{encoders} * microbatches;
      const std::int64_t begin = 700 + 1000 * messages;
      for (const StepTimes& times : {time_step(of.program, of.load, of.network),
                                     run_events(of.program, of.load, of.network)}) {
        const int first = of.program.pass_at(encoders, StepProgram::Pass::kForward, 0, 0);
        // The end of each message is a whole nanosecond.
        EXPECT_GE(times.actions[first].start.count, begin);
        EXPECT_LE(times.actions[first].start.count, begin + messages);
        EXPECT_EQ(times.makespan, times.actions[first].start + Nanoseconds{200 * microbatches});
      }
    }
  }
}

TEST(WholePipelines, BatchesAheadShareThePortOfTheirStep) {
  constexpr int kMicrobatches = 3;
  constexpr std::int64_t kBytes = 1000;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream random(seed, "ahead through a port");
    const int encoders = 1 << random.below(3);
    const auto ahead = static_cast<int>(random.below(4));
    StepCase of = features_through_a_port(encoders, kMicrobatches, 1, kBytes);
    const RunAhead runs(plan_of({.encoders = encoders}), of.program, of.network, ahead);
    RunAhead::Left left;
    std::vector<std::int64_t> begun;
    std::int64_t encoded = 0;
    std::int64_t trained = 0;
    for (int step = 0; step < 12; ++step) {
      // The messages of a microbatch are through before those of the next one come.
      const std::int64_t encode = random.between(4 * kBytes, 9 * kBytes);
      const std::int64_t train = random.between(1, 9 * kBytes);
      set_passes(of, encoders, encode, train);
      std::int64_t earliest = ahead == 0 ? trained : 0;
      if (ahead > 0 && step >= ahead) earliest = begun[step - ahead];
      encoded = std::max(encoded, earliest) + kMicrobatches * encode;
      begun.push_back(std::max(encoded + encoders * kBytes, trained));
      const std::int64_t before = trained;
      trained = begun.back() + 2 * kMicrobatches * train;
      ASSERT_EQ(runs.time(of.load, left).makespan.count, trained - before)
          << "seed " << seed << ", step " << step << ", " << ahead << " ahead";
    }
  }
}

}  // namespace
}  // namespace tributary::simulate
