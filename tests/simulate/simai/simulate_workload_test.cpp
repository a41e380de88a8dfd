#include "simulate/simai/simulate_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "core/error.h"
#include "cost/collective_cost.h"
#include "simulate/simai/workload_costs.h"
#include "tests/simulate/simai/workload_case.h"

namespace tributary::simulate {
namespace {

using config::CollectiveOp;

Simulation play(const std::string& text, const config::Cluster& cluster,
                const SimulationOptions& options = {}) {
  return simulate_workload(parse_simai_workload(text, "w.txt"), cluster, options);
}

std::int64_t step_of(const std::string& text, const config::Cluster& cluster) {
  return play(text, cluster).steps.front().count;
}

/// One device, so that collectives are nothing; or links that take no time.
config::Cluster fast_cluster(std::int64_t devices) {
  config::Cluster cluster = flat_cluster(devices);
  cluster.levels.front().bytes_per_s = 1e18;
  return cluster;
}

TEST(SimulateWorkload, OneRowIsItsPassesAndItsCollectives) {
  // A ring of 4 ranks on 10 GB/s: an all-reduce sends 2 x 3/4 of its bytes, its halves one 3/4.
  const std::string text =
      file_of({.tensor = 4, .ranks = 4},
              {"layer -1 1000 ALLREDUCE 400000 2000 REDUCESCATTER 400000 3000 NONE 0 100"});
  EXPECT_EQ(step_of(text, flat_cluster(4)), 6000 + (60'000 + 100) + (30'000 + 100));
}

TEST(SimulateWorkload, WeightGradientsMeetTheReplicasOnceAfterTheLastBackward) {
  const std::string text = file_of({.microbatches = 2, .ranks = 4},
                                   {"layer -1 1000 ALLREDUCE 4000000 2000 NONE 0 3000 ALLREDUCE "
                                    "400000 100"});
  const Simulation of = play(text, flat_cluster(4));
  EXPECT_EQ(of.steps.front().count, 2 * 6000 + 2 * (60'000 + 100));  // forward: a group of one
  EXPECT_EQ(of.accounts.front()[TimeUse::kReduction].count, 2 * 60'100);
  EXPECT_EQ(of.lane_ranks, std::vector<std::int64_t>{4});
}

TEST(SimulateWorkload, EveryNameMeetsItsGroup) {
  // Nodes of 4: tp 2, so that two of 8 replicas share a node; experts over 2 of them.
  const HeaderCase header{.tensor = 2, .expert = 2, .ranks = 16};
  const config::Cluster cluster = small_cluster(16);
  const auto time = [&](std::int64_t ranks, std::int64_t stride, CollectiveOp op) {
    return cost::collective_cost(cluster, op, cost::group_of(ranks, stride, 4), {1 << 20})
        .time.count;
  };
  const auto row = [&](const std::string& collectives) {
    return file_of(header, {"layer -1 7 " + collectives + " 0"});
  };
  const auto in_forward = [&](const std::string& name) {
    return step_of(row(name + " 1048576 0 NONE 0 0 NONE 0"), cluster) - 7;
  };
  const auto in_weight_gradient = [&](const std::string& name) {
    return step_of(row("NONE 0 0 NONE 0 0 " + name + " 1048576"), cluster) - 7;
  };
  EXPECT_EQ(in_forward("ALLREDUCE"), time(2, 1, CollectiveOp::kAllReduce));
  EXPECT_EQ(in_forward("ALLTOALL_EP"), time(2, 2, CollectiveOp::kAllToAll));
  EXPECT_EQ(in_forward("ALLGATHER_DP_EP"), time(4, 4, CollectiveOp::kAllGather));
  EXPECT_EQ(in_weight_gradient("ALLREDUCE"), time(8, 2, CollectiveOp::kAllReduce));
  EXPECT_EQ(in_weight_gradient("REDUCESCATTER_EP"), time(2, 2, CollectiveOp::kReduceScatter));
  EXPECT_EQ(in_weight_gradient("ALLGATHER_DP_EP"), time(4, 4, CollectiveOp::kAllGather));
}

/// A seeded file of one stage: rows with collectives of every kind.
std::vector<std::string> draw_rows(std::mt19937_64& random, int count) {
  const std::vector<std::string> names{"NONE", "ALLREDUCE", "ALLGATHER_EP", "REDUCESCATTER_DP_EP",
                                       "ALLTOALL"};
  std::vector<std::string> rows;
  const auto pass = [&] {
    return str(" ", random() % 5000, " ", names[random() % names.size()], " ", random() % 100'000);
  };
  for (int i = 0; i < count; ++i)
    rows.push_back(str("row", i, " -1", pass(), pass(), pass(), " ", random() % 50));
  return rows;
}

/// All that the rows take one after another, each collective by itself.
std::int64_t sum_of(const SimaiWorkload& workload, const config::Cluster& cluster) {
  std::int64_t sum = 0;
  const auto ranks_of = [&](WorkloadGroup group) {
    if (group == WorkloadGroup::kTensor) return workload.tensor;
    if (group == WorkloadGroup::kExpert) return workload.expert;
    return group == WorkloadGroup::kData ? workload.data() : workload.data() / workload.expert;
  };
  for (const WorkloadRow& row : workload.rows)
    for (const WorkloadPass& pass : {row.forward, row.input_gradient, row.weight_gradient}) {
      sum += pass.compute.count;
      if (!pass.collective || pass.collective->bytes.count == 0) continue;
      const std::int64_t ranks = ranks_of(pass.collective->group);
      if (ranks == 1) continue;
      const cost::CommunicationGroup group{.ranks = ranks, .ranks_per_node = ranks};
      sum += row.process.count +
             cost::collective_cost(cluster, pass.collective->op, group, pass.collective->bytes)
                 .time.count;
    }
  return sum;
}

TEST(SimulateWorkload, OneStageTakesTheSumOfAllRows) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 50; ++round) {
    const HeaderCase header{.tensor = 1 + std::int64_t(random() % 3),
                            .expert = 2,
                            .microbatches = 1 + std::int64_t(random() % 4),
                            .ranks = 12};
    const std::string text = file_of(header, draw_rows(random, 5),
                                     {"grad_gather -1 5 NONE 0 1 NONE 0 1 ALLGATHER 70000 9"},
                                     {"optimizer1 -1 0 ALLREDUCE 4000 3 NONE 0 0 NONE 0 9"});
    const SimaiWorkload workload = parse_simai_workload(text, "w.txt");
    const Simulation of = play(text, flat_cluster(12));
    EXPECT_EQ(of.steps.front().count, sum_of(workload, flat_cluster(12))) << text;
    EXPECT_EQ(bound_of(of).value(), of.steps.front()) << text;
  }
}

TEST(SimulateWorkload, TheBoundIsNeverAboveTheStepAndNearWhereReductionsTakeMostOfIt) {
  std::mt19937_64 random(9);
  const auto draw = [&random](std::int64_t max) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(max));
  };
  for (int round = 0; round < 200; ++round) {
    HeaderCase header{.tensor = draw(3), .expert = draw(2), .stages = draw(4), .message = 5000};
    header.chunks = header.stages > 1 ? draw(2) : 1;
    header.microbatches = header.stages * draw(3);
    header.ranks = header.tensor * header.stages * header.expert * draw(64);
    const std::string gathers =
        str("grad_gather -1 5 NONE 0 1 NONE 0 1 ALLGATHER ", draw(1 << 20), " 9");
    const std::string text = file_of(header, draw_rows(random, 5), {gathers},
                                     {"optimizer1 -1 0 ALLREDUCE 4000 3 NONE 0 0 NONE 0 9"});
    const Simulation of = play(
        text, flat_cluster(header.ranks),
        {.disturbance = {.straggler_share = round % 2 == 0 ? 0.0 : 0.1, .straggler_factor = 3}});
    ASSERT_LE(bound_of(of).value(), of.times.makespan) << text;
  }
  // 2,048 replicas; the reductions take 30 times as long as the passes.
  const std::string text =
      file_of({.stages = 4, .microbatches = 8, .ranks = 4 * 2048, .message = 1},
              {"layer -1 1000 NONE 0 2000 NONE 0 3000 ALLREDUCE 2000000 100"});
  const Simulation of = play(text, flat_cluster(4 * 2048));
  EXPECT_GT(of.accounts.front()[TimeUse::kReduction].count, 30 * 8 * 6000);
  EXPECT_LT(double(of.times.makespan.count), 1.001 * double(bound_of(of).value().count));
}

TEST(SimulateWorkload, MicrobatchesMayDiffer) {
  const std::string text =
      header_of({.microbatches = 3}) + "3\n" + compute_row("layer", 10, 20, 30) + "\n" +
      compute_row("layer", 100, 200, 300) + "\n" + compute_row("layer", 10, 20, 30) + "\n";
  EXPECT_EQ(step_of(text, fast_cluster(1)), 60 + 600 + 60);
  const SimaiWorkload workload = parse_simai_workload(text, "w.txt");
  const WorkloadCosts costs(workload, plan_of(workload), fast_cluster(1));
  const StepShapes shapes = costs.shapes();
  EXPECT_EQ(costs.cost(0, 0, shapes[0][0][1]).forward.count, 100);
  EXPECT_EQ(costs.cost(0, 0, shapes[0][0][2]).forward.count, 10);
}

TEST(SimulateWorkload, StagesAreTheClosedFormOf1F1B) {
  for (const std::int64_t stages : {2, 3, 5}) {
    for (const std::int64_t microbatches : {1, 2, 8}) {
      const std::string text =
          file_of({.stages = stages, .microbatches = microbatches, .ranks = stages, .message = 1},
                  {compute_row("layer", 10'000, 12'000, 8'000)});
      const double messages = 2.0 * double(stages - 1 + microbatches);  // each rounds up to 1 ns
      EXPECT_NEAR(double(step_of(text, fast_cluster(stages))),
                  double((microbatches + stages - 1) * 30'000), 2 * messages);
    }
  }
}

TEST(SimulateWorkload, ChunksShortenTheBubbleAsTheInterleavedFormula) {
  // The formula of SimAI's analytical mode: all rows, and (pp - 1) / (ga vpp) of them as a bubble.
  for (const std::int64_t chunks : {1, 2, 4}) {
    const std::vector<std::string> layers(4, compute_row("layer", 10'000, 12'000, 8'000));
    const std::string text = file_of(
        {.stages = 4, .chunks = chunks, .microbatches = 8, .ranks = 4, .message = 1}, layers);
    const double all = 8 * 4 * 30'000;
    EXPECT_NEAR(double(step_of(text, fast_cluster(4))), all + all * 3 / (8.0 * double(chunks)),
                600.0);
  }
}

TEST(SimulateWorkload, MessagesCrossTheLinksBetweenStages) {
  // One microbatch over two stages: two passes each, and 1,000,000 bytes there and back.
  const std::string text = file_of({.stages = 2, .ranks = 2, .message = 1'000'000},
                                   {compute_row("layer", 1000, 2000, 3000)});
  EXPECT_EQ(step_of(text, flat_cluster(2)), 2 * 6000 + 2 * 100'000);
}

TEST(SimulateWorkload, TheEmbeddingIsTheFirstStagesAlone) {
  const std::string text =
      file_of({.stages = 2, .ranks = 2, .message = 1},
              {compute_row("embedding_layer", 500, 0, 70), compute_row("layer", 1000, 2000, 3000)});
  const Simulation of = play(text, fast_cluster(2));
  EXPECT_EQ(of.accounts[0][TimeUse::kCompute].count, 6570);
  EXPECT_EQ(of.accounts[1][TimeUse::kCompute].count, 6000);
  EXPECT_NEAR(double(of.steps.front().count), 12'570, 4);
}

TEST(SimulateWorkload, RowsOnceAStepRunOnceOnEveryStage) {
  const std::vector<std::string> layers(2, compute_row("layer", 1000, 2000, 3000));
  for (const std::int64_t chunks : {1, 2}) {
    const HeaderCase header{
        .stages = 2, .chunks = chunks, .microbatches = 4, .ranks = 4, .message = 1};
    const std::string without = file_of(header, layers);
    const std::string with = file_of(
        header, layers, {"grad_param_comm -1 1 NONE 0 20 NONE 0 1 REDUCESCATTER 400000 100"},
        {compute_row("optimizer1", 0, 5, 0)});
    // A half ring of two replicas sends half of the bytes.
    EXPECT_EQ(step_of(with, flat_cluster(4)) - step_of(without, flat_cluster(4)),
              20'000 + 100 + 22 + 5);
  }
}

TEST(SimulateWorkload, ReplicasOneByOneAreTheFoldedOne) {
  const std::string text = file_of({.stages = 2, .microbatches = 4, .ranks = 8, .message = 5000},
                                   {compute_row("layer", 1000, 2000, 3000)});
  const Simulation folded = play(text, flat_cluster(8));
  const Simulation apart =
      play(text, flat_cluster(8), {.disturbance = {.straggler_share = 0.5, .straggler_factor = 1}});
  EXPECT_EQ(folded.program.lanes(), 2);
  EXPECT_EQ(apart.program.lanes(), 8);
  EXPECT_EQ(folded.ranks, 8);
  EXPECT_EQ(folded.steps, apart.steps);
}

TEST(SimulateWorkload, MarksMemoryAndMfuAsUnknown) {
  const SimaiWorkload workload = parse_simai_workload(
      file_of({.tensor = 2, .ranks = 4}, {compute_row("layer", 1000, 2000, 3000)}), "w.txt");
  const config::Trace trace =
      trace_of_workload(simulate_workload(workload, flat_cluster(4)), workload, "flat");
  EXPECT_EQ(trace.summary.unknown, (std::vector<std::string>{"memory", "mfu"}));
  EXPECT_EQ(trace.summary.plan, "w.txt");
  const std::string text = config::write_trace(trace);
  EXPECT_EQ(config::parse_trace(text, "trace.json"), trace);
  for (const char* key : {"\"mfu\"", "mfu_formula", "peak_bytes", "peak_parts", "out_of_memory"}) {
    const std::string list = std::string(key) == "\"mfu\"" ? "\"mfu\":" : key;
    EXPECT_EQ(text.find(list), std::string::npos) << key;
  }
}

TEST(SimulateWorkload, NamesAClusterThatIsTooSmallOrTooSlow) {
  const std::string text = file_of({.tensor = 4, .ranks = 4},
                                   {"layer -1 1 ALLREDUCE 1000000000000000 1 NONE 0 1 NONE 0 1"});
  EXPECT_THAT([&] { (void)play(text, flat_cluster(2)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "workload has more ranks than the cluster has devices; where: w.txt:1; found: "
                  "all_gpus 4; expected: at most 2")));
  EXPECT_THAT([&] { (void)play(text, flat_cluster(4)); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("collectives of a workload take too long; where: w.txt")));
}

TEST(SimulateWorkload, NamesCollectivesThatTakeTooLongTogetherAlone) {
  // Each is possible; all are more than 64 bits hold.
  const std::vector<std::string> rows(2'000'000,
                                      "layer -1 1 ALLREDUCE 1 0 NONE 0 0 NONE 0 10000000000000");
  EXPECT_THAT([&] { (void)play(file_of({.tensor = 8, .ranks = 8}, rows), flat_cluster(8)); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("collectives of a workload take too long; where: w.txt")));
  // One heavy microbatch among light ones is no more than it says.
  std::string text = file_of({.tensor = 2, .microbatches = 200, .ranks = 2},
                             {"layer -1 1 ALLREDUCE 1 0 NONE 0 0 NONE 0 1"});
  text.replace(text.find("NONE 0 1\n"), 8, "NONE 0 100000000000");
  EXPECT_GT(play(text, flat_cluster(2)).steps.front(), Nanoseconds{100'000'000'000});
}

TEST(CutEvenly, EqualLayersAreCutBetweenThem) {
  const std::vector<double> rows{3, 1, 4, 3, 1, 4, 3, 1, 4, 3, 1, 4};
  EXPECT_EQ(cut_evenly(rows, 4), (std::vector<std::int64_t>{0, 3, 6, 9, 12}));
  EXPECT_EQ(cut_evenly(rows, 2), (std::vector<std::int64_t>{0, 6, 12}));
  EXPECT_EQ(cut_evenly({0, 0, 0}, 2), (std::vector<std::int64_t>{0, 1, 3}));
}

TEST(CutEvenly, NoPartIsEmptyOrFarFromItsShare) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 20);
    for (double& value : values) value = double(random() % 100);
    const auto parts = static_cast<std::int64_t>(1 + random() % values.size());
    const std::vector<std::int64_t> cuts = cut_evenly(values, parts);
    ASSERT_EQ(std::ssize(cuts), parts + 1);
    EXPECT_EQ(cuts.back(), std::ssize(values));
    for (std::int64_t part = 0; part < parts; ++part) EXPECT_LT(cuts[part], cuts[part + 1]);
    if (parts != 2) continue;  // of two parts no other cut is nearer
    const double all = std::accumulate(values.begin(), values.end(), 0.0);
    const auto miss = [&](std::int64_t cut) {
      return std::abs(std::accumulate(values.begin(), values.begin() + cut, 0.0) - all / 2);
    };
    for (std::int64_t cut = 1; cut < std::ssize(values); ++cut)
      EXPECT_LE(miss(cuts[1]), miss(cut) + 1e-9);
  }
}

}  // namespace
}  // namespace tributary::simulate
