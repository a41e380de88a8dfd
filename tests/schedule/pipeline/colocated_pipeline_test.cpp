#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "core/error.h"
#include "schedule/pipeline/check_schedule.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "schedule/pipeline/time_schedule.h"
#include "tests/core/input_error.h"
#include "tests/schedule/pipeline/random_pipeline.h"
#include "tests/schedule/pipeline/spoilt_schedule.h"

namespace tributary::schedule {
namespace {

using config::PipelineOrder;
using testing::HasSubstr;

/// Vision on all ranks of two stages with three replicas of two ranks each.
config::Plan make_colocated_plan(const std::string& schedule = "1f1b", int tp = 1) {
  return config::parse_plan(str(R"({"format": "tributary.plan/1",
    "modules": {
      "vision": {"placement": "colocated", "ranks": "4-15", "mesh": {"dp_shard": )",
                                12 / tp, R"(, "tp": )", tp, R"(}, "passes": 2},
      "backbone": {"ranks": "4-15", "mesh": {"pp": 2, "dp_shard": 3, "tp": 2},
                   "stages": [["embed", "0-14"], ["15-27", "head"]], "schedule": ")",
                                schedule, R"("}},
    "edges": [{"from": "vision", "to": "backbone"}],
    "batch": {"global_samples": 32, "microbatches": 4, "capacity_tokens": 8192}})"),
                            "plan.json");
}

TEST(ColocatedPipeline, EncodesBeforeAndGoesBackBehindTheBackbone) {
  const config::Plan plan = make_colocated_plan();
  const Schedule schedule = schedule_passes(pipeline_of(plan));
  EXPECT_EQ(schedule.lists.size(), 18U);
  EXPECT_EQ(to_text(std::span(schedule.lists).subspan(6, 1)),
            "F0.0 F0.1 F0.2 F0.3 BW0.0 BW0.1 BW0.2 BW0.3\n");
  EXPECT_NO_THROW(require_valid(lower_schedule(schedule, {}), {}));
}

TEST(ColocatedPipeline, HasNoMorePassesThanMicrobatches) {
  const Pipeline pipeline = pipeline_of(make_colocated_plan());
  const auto passes = [&](const char* name, int microbatches) {
    const auto found = std::find_if(pipeline.modules.begin(), pipeline.modules.end(),
                                    [&](const PipelineModule& each) { return each.name == name; });
    return found->passes_of(microbatches);
  };
  EXPECT_EQ(passes("vision", 4), 2);
  EXPECT_EQ(passes("vision", 1), 1);
  EXPECT_EQ(passes("backbone", 4), 4);
}

/// Adds an encoder of sound on all ranks, or on those of the first stage.
void add_audio(bool is_beside_first, const config::MeshShape& mesh, config::Plan& plan) {
  config::ModulePlan audio = *plan.find("vision");
  audio.name = "audio";
  audio.mesh = mesh;
  if (is_beside_first) audio.ranks.resize(6);
  plan.modules.push_back(audio);
  plan.edges.push_back({.from = "audio", .to = "backbone"});
}

/// Compares with what the ranks of the plan say.
void expect_lanes_of_ranks(const config::Plan& plan, const std::string& what) {
  const Pipeline pipeline = pipeline_of(plan);
  const PipelineMap map(pipeline);
  std::vector<std::set<std::vector<int>>> on_ranks(static_cast<std::size_t>(map.lanes()));
  std::vector<std::set<int>> beside(on_ranks.size());
  for (const std::vector<int>& lanes : lanes_of_ranks(plan, map)) {
    if (lanes.empty()) continue;
    EXPECT_EQ(map.at(lanes.back()).module, map.flow().back()) << what;
    for (const int lane : lanes) {
      std::vector<int> others = lanes;
      std::erase(others, lane);
      std::ranges::sort(others);
      on_ranks[lane].insert(others);
      beside[lane].insert(others.begin(), others.end());
    }
  }
  for (int lane = 0; lane < map.lanes(); ++lane) {
    EXPECT_THAT(map.lanes_beside(lane), testing::ElementsAreArray(beside[lane]))
        << map.describe(lane) << ", " << what;
    EXPECT_THAT(map.lanes_on_ranks(lane), testing::ElementsAreArray(on_ranks[lane]))
        << map.describe(lane) << ", " << what;
  }
}

TEST(ColocatedPipeline, KnowsTheLanesOfEachRank) {
  for (const int tp : {1, 2, 4, 12}) {
    const config::Plan plan = make_colocated_plan("1f1b", tp);
    expect_lanes_of_ranks(plan, str("tp ", tp));
    for (const int audio_tp : {1, 3, 12}) {
      config::Plan both = plan;
      add_audio(false, {.dp_shard = 12 / audio_tp, .tp = audio_tp}, both);
      expect_lanes_of_ranks(both, str("tp ", tp, " and ", audio_tp));
    }
    config::Plan both = plan;
    add_audio(true, {.dp_shard = 2, .tp = 3}, both);
    expect_lanes_of_ranks(both, str("tp ", tp, " and audio beside the first stage"));
  }
}

TEST(ColocatedPipeline, RefusesTurnsAmongWeightGradientsThatArePutOff) {
  for (const PipelineOrder order :
       {PipelineOrder::kZbH1, PipelineOrder::kZbV, PipelineOrder::kVHalf, PipelineOrder::kVMin}) {
    config::Plan plan = make_colocated_plan();
    config::ModulePlan& backbone = plan.modules[0];
    backbone.schedule = order;
    if (traits_of(order).chunks == 2)
      backbone.stages = {{.embed = true, .layers = 7},
                         {.first = 7, .layers = 7},
                         {.first = 14, .layers = 7},
                         {.first = 21, .layers = 7, .head = true}};
    EXPECT_NO_THROW(require_valid(lower_schedule(schedule_passes(pipeline_of(plan)), {}), {}));
    plan.modules[1].turns = true;
    EXPECT_THAT([&] { (void)schedule_passes(pipeline_of(plan)); },
                testing::ThrowsMessage<Error>(
                    HasSubstr("order puts weight gradients off beside a module that takes turns")))
        << traits_of(order).name;
    plan.modules[1].train = config::TrainMode::kFrozen;
    EXPECT_NO_THROW(require_valid(lower_schedule(schedule_passes(pipeline_of(plan)), {}), {}));
  }
}

TEST(ColocatedPipeline, RefusesOtherThanOneStageInFrontOfTheBackbone) {
  const auto refusal_of = [](const Pipeline& pipeline) {
    return input_error_of([&] { const PipelineMap map(pipeline); });
  };
  Pipeline pipeline = pipeline_of(make_colocated_plan());
  pipeline.modules[1].stages = 2;
  pipeline.modules[1].trains.clear();
  EXPECT_THAT(refusal_of(pipeline), HasSubstr("colocated module is cut; where: vision"));
  pipeline = pipeline_of(make_colocated_plan());
  pipeline.modules.push_back({.name = "audio"});
  pipeline.edges = {{.from = 1, .to = 2}, {.from = 2, .to = 0}};
  EXPECT_THAT(refusal_of(pipeline),
              HasSubstr("colocated module feeds another than the backbone; where: vision"));
  pipeline.modules[1].passes = -1;
  EXPECT_THAT(refusal_of(pipeline), HasSubstr("module has a negative number of passes"));
}

/// Passes of lanes on the same ranks that run at the same time.
int count_overlaps(const DependencyGraph& graph, const PipelineMap& map, const ScheduleTime& time) {
  int overlaps = 0;
  for (int lane = 0; lane < map.lanes(); ++lane) {
    for (const int beside : map.lanes_beside(lane)) {
      for (int mine = graph.first_node(lane); mine < graph.first_node(lane + 1); ++mine) {
        if (!is_pass(graph.action(mine).op) || time.start[mine] == time.end[mine]) continue;
        for (int other = graph.first_node(beside); other < graph.first_node(beside + 1); ++other)
          if (is_pass(graph.action(other).op) && time.start[mine] < time.end[other] &&
              time.start[other] < time.end[mine])
            ++overlaps;
      }
    }
  }
  return overlaps;
}

/// Vision in `passes` on each rank of a pipeline of `stages`, a rank each.
Pipeline make_turns(int stages, int microbatches, int passes, bool takes_turns = true) {
  return make_colocated(stages, microbatches, {.passes = passes, .takes_turns = takes_turns});
}

TEST(ColocatedPipeline, TakesTurnsWhereThePipelineWaits) {
  const Schedule schedule = schedule_passes(make_turns(2, 4, 2));
  // Stage 0 encodes the second half while its first microbatches are on stage 1, which does so
  // before they come. The first half goes back where stage 0 waits for its last gradient, and on
  // stage 1 at the end.
  EXPECT_EQ(lists_of(schedule, 0, 2),
            "F0.0 F0.1 TS0.0 TR0.0 F0.2 F0.3 TS0.1 TR0.1 BW0.0 BW0.1 TS0.2 TR0.2 BW0.2 BW0.3\n"
            "F0.0 F0.1 F0.2 F0.3 TS0.0 TR0.0 BW0.0 BW0.1 BW0.2 BW0.3\n");
  EXPECT_EQ(lists_of(schedule, 2, 2),
            "TR0.0 F0.0 F0.1 TS0.0 TR0.1 BW0.0 F0.2 BW0.1 F0.3 BW0.2 TS0.1 TR0.2 BW0.3 TS0.2\n"
            "TR0.0 F0.0 BW0.0 F0.1 BW0.1 F0.2 BW0.2 F0.3 BW0.3 TS0.0\n");
}

TEST(ColocatedPipeline, GoesBackBehindWeightGradientsThatWerePutOff) {
  Pipeline pipeline = make_turns(2, 2, 1, false);
  pipeline.modules[1].order = PipelineOrder::kZbH1;
  EXPECT_EQ(lists_of(schedule_passes(pipeline), 0, 4),
            "F0.0 F0.1 TS0.0 TR0.0 BW0.0 BW0.1\n"
            "F0.0 F0.1 TS0.0 TR0.0 BW0.0 BW0.1\n"
            "TR0.0 F0.0 F0.1 B0.0 W0.0 B0.1 W0.1 TS0.0\n"
            "TR0.0 F0.0 B0.0 F0.1 B0.1 W0.0 W0.1 TS0.0\n");
}

TEST(ColocatedPipeline, EncodersRunOneAfterTheOther) {
  Pipeline pipeline = make_turns(1, 2, 1, false);
  pipeline.modules.push_back({.name = "audio", .replicas = 2, .passes = 1});
  pipeline.edges.push_back({.from = 2, .to = 1});
  const Schedule schedule = schedule_passes(pipeline);
  EXPECT_EQ(lists_of(schedule, 0, 4),
            "F0.0 F0.1 TS0.0 TS0.0 TR0.0 TR0.0 BW0.0 BW0.1 TS0.1 TS0.1\n"
            "F0.0 BW0.0 F0.1 BW0.1\n"
            "TR0.0 F0.0 F0.1 TS0.0 TR0.1 BW0.0 BW0.1\n"
            "TR0.0 F0.0 F0.1 TS0.0 TR0.1 BW0.0 BW0.1\n");
  // One that is frozen gives way once; what takes turns with the backbone comes second.
  pipeline.modules[2].trains = {false};
  pipeline.modules[0].takes_turns = true;
  pipeline.modules[0].passes = 2;
  EXPECT_EQ(lists_of(schedule_passes(pipeline), 0, 4),
            "TR0.0 TR0.0 F0.0 F0.1 TS0.0 TR0.0 BW0.0 BW0.1\n"
            "TR0.0 F0.0 BW0.0 F0.1 BW0.1 TS0.0\n"
            "F0.0 F0.1 TS0.0\n"
            "F0.0 F0.1 TS0.0\n");
}

TEST(ColocatedPipeline, EncodesOneGroupAheadWhereNothingWaits) {
  const Schedule schedule = schedule_passes(make_turns(1, 4, 4));
  EXPECT_EQ(lists_of(schedule, 0, 1),
            "F0.0 F0.1 TS0.0 TR0.0 F0.2 TS0.1 TR0.1 BW0.0 F0.3 TS0.2 TR0.2 BW0.1 TS0.3 TR0.3 BW0.2 "
            "BW0.3\n");
}

/// The makespan where a pass of the encoder takes as long as `forward` for all its microbatches.
std::int64_t time_of(Pipeline pipeline, std::int64_t forward) {
  pipeline.modules[1].times.assign(static_cast<std::size_t>(pipeline.modules[1].stages),
                                   {{10}, {10}, {10}});
  const Schedule schedule = lower_schedule(schedule_passes(pipeline), {});
  require_valid(schedule, {});
  const PipelineMap map(schedule.pipeline);
  const DependencyGraph graph(schedule, map, {});
  const PassGroups groups = pipeline.modules[0].groups_of(pipeline.microbatches);
  ScheduleCosts costs = costs_of(map);
  const auto backbone = costs.action;
  costs.action = [&](int lane, const Action& action) {
    if (!map.is_colocated(lane) || !is_pass(action.op)) return backbone(lane, action);
    const std::int64_t pass = groups.pass_of(action.microbatch);
    if (action.op == Op::kForward)
      return Nanoseconds{action.microbatch == groups.first_of(pass) ? forward : 0};
    return Nanoseconds{action.microbatch + 1 == groups.first_of(pass + 1) ? 2 * forward : 0};
  };
  return makespan_of(graph, costs).count;
}

TEST(ColocatedPipeline, IsFasterWithTurnsWhereThePipelineWaits) {
  for (const int stages : {2, 4})
    for (const int passes : {2, 4})
      for (const std::int64_t forward : {4, 10, 40}) {
        const std::int64_t with = time_of(make_turns(stages, 8, passes), forward);
        const std::int64_t without = time_of(make_turns(stages, 8, passes, false), forward);
        EXPECT_LT(with, without) << stages << " stages, " << passes << " passes of " << forward;
        // At least the first pass is before the pipeline, and the last one goes back behind it.
        EXPECT_GE(with, 8 * 30 + 3 * passes * forward);
      }
  EXPECT_EQ(time_of(make_turns(1, 8, 4), 10), time_of(make_turns(1, 8, 4, false), 10));
}

TEST(ColocatedPipeline, TakesTurnsInsideOfAStageOnly) {
  config::Plan plan = make_colocated_plan();
  plan.modules[1].turns = true;
  const auto refusal = [&] {
    try {
      check_plan(plan, "plan.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    const Pipeline pipeline = pipeline_of(plan);
    EXPECT_TRUE(PipelineMap(pipeline).alternate(0, 1));
    return std::string();
  };
  const std::string several = "ranks that meet in a pass lie on several stages";
  EXPECT_THAT(refusal(), HasSubstr(several)) << "they gather shards in each pass";
  plan.modules[1].mesh = {.dp_replicate = 12};
  EXPECT_EQ(refusal(), "");
  plan.modules[1].mesh = {.dp_replicate = 2, .dp_shard = 3, .tp = 2};
  EXPECT_EQ(refusal(), "");
  plan.modules[1].mesh = {.dp_replicate = 3, .tp = 4};
  EXPECT_THAT(refusal(), HasSubstr(several)) << "they share a pass";
  Pipeline pipeline = make_turns(2, 4, 2);
  pipeline.modules[0].replicas = 1;
  EXPECT_THAT([&] { const PipelineMap map(pipeline); },
              testing::ThrowsMessage<Error>(HasSubstr("lies on ranks of several stages")));
}

TEST(ColocatedPipeline, ChecksWhoHasTheRanks) {
  const Schedule schedule = lower_schedule(schedule_passes(make_turns(2, 4, 2)), {});
  const auto rules_of = [&](const auto& spoil) { return rules_broken(schedule, spoil); };
  EXPECT_TRUE(rules_of([](auto&) {}).empty());
  EXPECT_THAT(rules_of([&](auto& lists) { lists[2].erase(find(lists[2], Op::kReceiveTurn)); }),
              testing::Contains(Rule::kTurns));
  EXPECT_THAT(rules_of([&](auto& lists) { lists[0].erase(find(lists[0], Op::kSendTurn)); }),
              testing::Contains(Rule::kTurns));
  EXPECT_THAT(rules_of([&](auto& lists) { find(lists[0], Op::kSendTurn)->microbatch = 7; }),
              testing::Contains(Rule::kTurns));
  EXPECT_THAT(rules_of([&](auto& lists) { find(lists[0], Op::kSendTurn)->peer = 3; }),
              testing::Contains(Rule::kTurns));
}

TEST(ColocatedPipeline, TakesMicrobatchesOfAGroupInTheirOrder) {
  for (const OrderTraits& traits : all_orders())
    for (const int stages : {1, 2, 4}) {
      const Pipeline pipeline = make_pipeline(traits.order, stages, 2 * stages);
      const Schedule schedule = schedule_passes(pipeline);
      for (const bool forward : {true, false}) {
        int next = 0;
        for (const Action& action : schedule.lists[0]) {
          const bool counts = forward ? action.op == Op::kForward : gives_input_gradient(action.op);
          if (!counts || action.chunk != 0) continue;
          EXPECT_EQ(action.microbatch, next++) << traits.name;
        }
      }
    }
}

TEST(ColocatedPipeline, NeverComputesTwiceOnARank) {
  int trained = 0;
  int took_turns = 0;
  int several = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    RandomStream random(seed, "colocated");
    const Pipeline pipeline = draw_colocated(random);
    const Buffers buffers{.receive = 2, .send = 1 + static_cast<int>(random.below(2))};
    const Schedule passes = schedule_passes(pipeline);
    for (const Schedule& schedule : {passes, lower_schedule(passes, buffers)}) {
      EXPECT_TRUE(check_schedule(schedule, buffers).empty())
          << "seed " << seed << ": " << check_schedule(schedule, buffers).front().found;
      const PipelineMap map(schedule.pipeline);
      const DependencyGraph graph(schedule, map, buffers);
      const ScheduleTime time = time_schedule(graph, map, costs_of(map));
      ASSERT_EQ(count_overlaps(graph, map, time), 0) << "seed " << seed;
    }
    const PipelineMap map(passes.pipeline);
    const int encoder = map.sharers().front();
    if (map.has_backward(encoder, 0)) ++trained;
    if (map.alternate(encoder, map.flow().back())) ++took_turns;
    if (map.sharers().size() > 2) ++several;
  }
  EXPECT_GT(trained, 200);
  EXPECT_GT(took_turns, 200);
  EXPECT_GT(several, 500);
}

}  // namespace
}  // namespace tributary::schedule
