#include "plan/judge/replica_timer.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/text.h"
#include "plan/judge/action_order.h"
#include "schedule/pipeline/pipeline.h"
#include "simulate/engine/step_times.h"
#include "tests/schedule/pipeline/random_pipeline.h"

namespace tributary::plan {
namespace {

using schedule::Op;

/// Lists of one replica of each module, on links of their own.
struct Case {
  Case(RandomStream& random, schedule::Pipeline pipeline, const schedule::Buffers& buffers)
      : program(schedule::lower_schedule(schedule::schedule_passes(pipeline), buffers), buffers) {
    for (const simulate::Channel& channel : program.channels()) {
      const simulate::Route drawn{.latency = {random.between(0, 20)},
                                  .bytes_per_ns = static_cast<double>(random.between(0, 4)) / 2};
      network.routes.push_back(channel.op == Op::kSendTurn ? simulate::Route{} : drawn);
    }
  }
  simulate::StepProgram program;
  simulate::Network network;
};

/// One lane for a colocated module on all stages, so it takes no turns with the backbone.
schedule::Pipeline with_one_replica(schedule::Pipeline pipeline) {
  for (schedule::PipelineModule& module : pipeline.modules) {
    module.replicas = 1;
    module.takes_turns = module.ahead = false;
  }
  return pipeline;
}

ReplicaLoad draw_load(RandomStream& random, const simulate::StepProgram& program,
                      std::size_t replicas) {
  ReplicaLoad load;
  const auto draw = [&] { return random.below(6) == 0 ? 0 : random.between(1, 60); };
  for (const schedule::PipelineModule& module : program.pipeline().modules) {
    ModulePasses& passes = load.modules.emplace_back();
    passes.stand_for.assign(replicas, 1);
    const auto stages = static_cast<std::size_t>(module.virtual_stages());
    for (std::size_t stage = 0; stage < stages; ++stage) passes.kind_of.push_back(stage);
    const std::size_t sizes = replicas * static_cast<std::size_t>(program.pipeline().microbatches);
    for (std::size_t size = 0; size < sizes; ++size) passes.first_of.push_back(size * stages);
    for (std::size_t pass = 0; pass < sizes * stages; ++pass)
      passes.passes.push_back({.costs = {draw(), draw(), draw(), draw()}});
    passes.mean_boundary = draw();
  }
  for (int action = 0; action < program.actions(); ++action) load.fixed.push_back({draw()});
  return load;
}

/// What one of the replicas takes alone, for the engine of the simulator.
simulate::StepLoad load_of(const simulate::StepProgram& program, const ReplicaTimer& timer,
                           const ReplicaLoad& load, std::size_t replica) {
  simulate::StepLoad alone{.duration = load.fixed, .exposed = {}, .bytes = {}};
  for (int action = 0; action < program.actions(); ++action) {
    if (program.kind(action) != simulate::StepKind::kPass) continue;
    const schedule::Action& pass = program.action(action);
    const schedule::Lane of = program.map().at(program.lane_of(action));
    const PassCosts& costs = load.modules[of.module]
                                 .at(program.map().virtual_stage(of.module, of.stage, pass.chunk),
                                     pass.microbatch)[replica]
                                 .costs;
    alone.duration[action] = {pass.op == Op::kForward         ? costs.forward
                              : pass.op == Op::kBackward      ? costs.backward()
                              : pass.op == Op::kBackwardInput ? costs.input_gradient
                                                              : costs.weight_gradient};
  }
  for (int i = 0; i < std::ssize(program.messages()); ++i) {
    const ReplicaTimer::MessagePlace& place = timer.of_message(i);
    alone.bytes.push_back({ReplicaTimer::boundary(place, load.modules[place.module], replica)});
  }
  return alone;
}

TEST(ReplicaTimer, TakesAsLongAsTheSlowestReplicaAloneInTheSimulator) {
  RandomStream random(5);
  int backbones = 0;
  int colocated = 0;
  int taking_turns = 0;
  int blocked = 0;                  // for want of buffers
  std::vector<std::int64_t> times;  // room with what the run before has left
  for (int i = 0; i < 1500; ++i) {
    const bool is_colocated = random.below(4) == 0;
    schedule::Pipeline drawn = is_colocated ? schedule::draw_pipeline(random, 5, 9)
                                            : schedule::draw_pipeline(random, 6, 20);
    const auto beside = is_colocated ? random.between(1, 3) : 0;
    for (int each = 0; each < beside; ++each)
      schedule::add_beside(random, str("beside", each), drawn);
    const schedule::Pipeline pipeline = with_one_replica(std::move(drawn));
    // Features are one message of all replicas.
    const bool has_edges = !pipeline.edges.empty();
    const std::size_t replicas = has_edges ? 1 : static_cast<std::size_t>(random.between(1, 5));
    const Case of(random, pipeline,
                  {.receive = static_cast<int>(random.between(1, 3)),
                   .send = static_cast<int>(random.between(1, 3))});
    const simulate::StepLoad none{
        .duration = std::vector<Nanoseconds>(of.program.actions()), .exposed = {}, .bytes = {}};
    if (!simulate::time_step(of.program, none, of.network).blocked.empty()) {
      EXPECT_THROW(ReplicaTimer(of.program, of.network), Error) << "pipeline " << i;
      ++blocked;
      continue;
    }
    const ReplicaTimer timer(of.program, of.network);
    const ReplicaLoad load = draw_load(random, of.program, replicas);
    std::int64_t slowest = 0;
    for (std::size_t replica = 0; replica < replicas; ++replica)
      slowest = std::max(
          slowest,
          simulate::time_step(of.program, load_of(of.program, timer, load, replica), of.network)
              .makespan.count);
    ASSERT_EQ(timer.run(load, times).count, slowest) << "pipeline " << i;
    if (!has_edges && replicas > 1) ++backbones;
    if (is_colocated) ++colocated;
    if (beside > 1) ++taking_turns;
  }
  EXPECT_GT(backbones, 300);
  EXPECT_GT(colocated, 200);
  EXPECT_GT(taking_turns, 100);
  EXPECT_GT(blocked, 0);
}

/// One microbatch of a module, whose replicas have these forwards.
ModulePasses forwards_of(const std::vector<std::int64_t>& times) {
  ModulePasses module{.kind_of = {0}};
  for (const std::int64_t time : times) {
    module.stand_for.push_back(1);
    module.first_of.push_back(module.passes.size());
    module.passes.push_back({.costs = {.forward = time}});
  }
  return module;
}

TEST(ReplicaTimer, GivesATurnOnceAllReplicasOfAModuleHaveHadTheirs) {
  const schedule::Pipeline pipeline{.modules = {{.name = "vision", .passes = 1},
                                                {.name = "audio", .passes = 1},
                                                {.name = "backbone"}},
                                    .edges = {{.from = 0, .to = 2}, {.from = 1, .to = 2}}};
  const simulate::StepProgram program(
      schedule::lower_schedule(schedule::schedule_passes(pipeline), {}), {});
  simulate::Network network;
  network.routes.resize(program.channels().size());
  const ReplicaLoad load{
      .modules = {forwards_of({10, 30}), forwards_of({5, 5, 20}), forwards_of({7})},
      .fixed = std::vector<Nanoseconds>(program.actions())};
  std::vector<std::int64_t> times;
  EXPECT_EQ(ReplicaTimer(program, network).run(load, times).count, 30 + 20 + 7);
}

TEST(ReplicaTimer, GivesPlacesOfMessagesToLaterOnes) {
  RandomStream random(6);
  const Case of(random, schedule::make_pipeline(config::PipelineOrder::k1f1b, 4, 64), {});
  const ReplicaTimer timer(of.program, of.network);
  EXPECT_EQ(std::ssize(of.program.messages()), 2 * 3 * 64);
  EXPECT_LE(timer.slots(), 60);
}

TEST(OrderActions, HasEveryActionOnce) {
  RandomStream random(7);
  const Case of(random, schedule::make_pipeline(config::PipelineOrder::k1f1b, 3, 4), {});
  std::vector<int> order = order_actions(of.program);
  EXPECT_EQ(std::ssize(order), of.program.actions());
  std::sort(order.begin(), order.end());
  for (int action = 0; action < of.program.actions(); ++action) EXPECT_EQ(order[action], action);
}

TEST(JoinReplicas, TakesTheSlowestBothWaysAndTheMostBytes) {
  const ModulePasses two{
      .stand_for = {3, 1},
      .kind_of = {0},
      .first_of = {0, 1, 2, 3},
      .passes = {{{.forward = 5, .input_gradient = 1, .boundary = 10}, {.kept = 7}},
                 {{.forward = 9, .input_gradient = 2, .boundary = 30}, {.kept = 2}},
                 {{.forward = 5, .input_gradient = 9, .boundary = 20}, {.kept = 1}},
                 {{.forward = 2, .input_gradient = 2, .boundary = 40}, {.kept = 8}}}};
  const ModulePasses joined = join_replicas(two, 4);
  ASSERT_EQ(joined.replicas(), 1U);
  EXPECT_EQ(joined.stand_for.front(), 4);
  // Forward 10 against 11, backward 10 against 4.
  EXPECT_EQ(joined.at(0, 0)[0].costs.forward, 9);
  EXPECT_EQ(joined.at(0, 1)[0].costs.forward, 2);
  EXPECT_EQ(joined.at(0, 0)[0].costs.input_gradient, 1);
  EXPECT_EQ(joined.at(0, 1)[0].costs.input_gradient, 9);
  EXPECT_EQ(joined.at(0, 0)[0].costs.boundary, 15);
  EXPECT_EQ(joined.at(0, 1)[0].costs.boundary, 25);
  EXPECT_EQ(joined.mean_boundary, 10);
  EXPECT_EQ(joined.at(0, 0)[0].bytes.kept, 7);
  EXPECT_EQ(joined.at(0, 1)[0].bytes.kept, 8);
  for (const int after : {2, 3}) EXPECT_EQ(joined.at(0, after)[0].costs.forward, 0);
}

}  // namespace
}  // namespace tributary::plan
