#include "simulate/recorded_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/simulate/plan_case.h"
#include "tests/simulate/run_files.h"

namespace tributary::simulate {
namespace {

std::string words_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadRecordedSteps, OrdersReplicasByTheirRanks) {
  const RunFiles run;
  run.write("shapes.jsonl",
            "{\"step\": 1, \"microbatches\": [[9, 81, 1, 0, 0, 0]]}\n"
            "{\"step\": 2, \"microbatches\": [[10, 52, 2, 4, 16, 1], [7, 49, 1, 0, 0, 0]]}\n");
  run.write("shapes-10.jsonl",
            "{\"step\": 1, \"microbatches\": []}\n{\"step\": 2, \"microbatches\": [[3, 9, 1, 0, 0, "
            "0]]}\n");
  run.write(
      "shapes-2.jsonl",
      "{\"step\": 1, \"microbatches\": []}\n{\"step\": 2, \"microbatches\": [[5, 25, 1, 0, 0, "
      "0]]}\n");
  const RecordedSteps steps = read_recorded_steps(run.path(), 1);
  ASSERT_EQ(steps.size(), 1U);
  ASSERT_EQ(steps[0].size(), 3U);
  ASSERT_EQ(steps[0][0].size(), 2U);
  EXPECT_EQ(steps[0][0][0].backbone.squared_tokens, 52);
  EXPECT_EQ(steps[0][0][0].encoder.tokens, 4);
  EXPECT_EQ(steps[0][0][0].encoder.sequences, 1);
  EXPECT_EQ(steps[0][1][0].backbone.tokens, 5) << "rank 2 before rank 10";
  EXPECT_EQ(steps[0][2][0].backbone.tokens, 3);
}

TEST(ReadRecordedSteps, NamesWhatCannotBeRead) {
  const RunFiles run;
  EXPECT_THAT(words_of([&] { (void)read_recorded_steps(run.path(), 0); }),
              testing::HasSubstr("no shapes.jsonl"));
  EXPECT_THAT(words_of([&] { (void)read_recorded_steps(run.path() + "/none", 0); }),
              testing::HasSubstr("no directory"));
  run.write("shapes.jsonl", "{\"step\": 1, \"microbatches\": [[1, 2, 3]]}\n");
  EXPECT_THAT(words_of([&] { (void)read_recorded_steps(run.path(), 0); }),
              testing::AllOf(testing::HasSubstr("shapes.jsonl:1"),
                             testing::HasSubstr("six whole numbers")));
  run.write("shapes.jsonl", "{\"microbatches\": []}\n");
  EXPECT_THAT(words_of([&] { (void)read_recorded_steps(run.path(), 0); }),
              testing::HasSubstr("step and microbatches"));
  run.write("shapes.jsonl", "{\"step\": 1, \"microbatches\": []}\n");
  run.write("shapes-1.jsonl", "");
  EXPECT_THAT(words_of([&] { (void)read_recorded_steps(run.path(), 0); }),
              testing::HasSubstr("other steps"));
}

TEST(ReadRecordedMedia, JoinsTheReplicasOfARound) {
  const RunFiles run;
  run.write("shapes.jsonl",
            "{\"step\": 1, \"microbatches\": [[9, 81, 1, 0, 0, 0]], \"media\": [[]]}\n"
            "{\"step\": 2, \"microbatches\": [[9, 81, 1, 6, 36, 1]], \"media\": [[[1, 2, 3]]]}\n");
  run.write(
      "shapes-1.jsonl",
      "{\"step\": 1, \"microbatches\": [], \"media\": []}\n"
      "{\"step\": 2, \"microbatches\": [[9, 81, 1, 4, 8, 2], [1, 1, 1, 5, 25, 1]], \"media\": "
      "[[[2, 1, 2]], [[1, 5, 1]]]}\n");
  const RecordedMedia media = read_recorded_media(run.path(), 0);
  ASSERT_EQ(media.size(), 2U);
  ASSERT_EQ(media[0].size(), 1U);
  EXPECT_TRUE(media[0][0].empty());
  ASSERT_EQ(media[1].size(), 2U);
  ASSERT_EQ(media[1][0].size(), 2U);
  EXPECT_EQ(media[1][0][0].grid, (Grid{1, 2, 3}));
  EXPECT_EQ(media[1][0][0].replica, 0);
  EXPECT_EQ(media[1][0][1].grid, (Grid{2, 1, 2}));
  EXPECT_EQ(media[1][0][1].replica, 1);
  EXPECT_EQ(media[1][1][0].grid, (Grid{1, 5, 1}));
  EXPECT_EQ(read_recorded_media(run.path(), 1).size(), 1U);
  run.write("shapes-1.jsonl", "{\"step\": 1, \"microbatches\": []}\n");
  EXPECT_TRUE(read_recorded_media(run.path(), 0).empty()) << "an older run has none";
}

TEST(ReadRecordedMedia, NamesWhatCannotBeRead) {
  const RunFiles run;
  const auto words = [&](const std::string& media) {
    run.write("shapes.jsonl",
              "{\"step\": 1, \"microbatches\": [[1, 1, 1, 0, 0, 0]], \"media\": " + media + "}\n");
    return words_of([&] { (void)read_recorded_media(run.path(), 0); });
  };
  EXPECT_THAT(words("[]"), testing::AllOf(testing::HasSubstr("shapes.jsonl:1"),
                                          testing::HasSubstr("a list for each microbatch")));
  for (const char* grid :
       {"[[[1, 2]]]", "[[[1, 2, 0]]]", "[[[1, 2, -3]]]", "[[[1, 2, 100000]]]", "[[7]]"})
    EXPECT_THAT(words(grid), testing::HasSubstr("frames, rows and columns, 1 to 65536")) << grid;
}

cost::MicrobatchShape tokens(double count) {
  cost::MicrobatchShape shape;
  shape.backbone = {.tokens = count, .squared_tokens = count * count, .sequences = 1};
  return shape;
}

/// Two stages, two replicas: with one microbatch of 100 tokens each stage works one after the
/// other.
TEST(SimulateRecorded, TakesEachStepWithItsOwnMicrobatches) {
  const config::Plan plan = text_plan();
  const TableCosts costs(/*has_encoder=*/false);
  SimulationOptions options;
  options.network.share_links = false;
  const RecordedSteps recorded{{{tokens(100)}, {tokens(100)}},
                               {{tokens(100), tokens(100)}, {tokens(100)}},
                               {{tokens(300)}, {tokens(100)}}};
  const Simulation all = simulate_recorded(plan, costs, small_cluster(4), options, recorded);
  ASSERT_EQ(all.steps.size(), 3U);
  for (std::size_t step = 0; step < recorded.size(); ++step) {
    const Simulation one =
        simulate_recorded(plan, costs, small_cluster(4), options, {recorded[step]});
    EXPECT_EQ(one.steps.front(), all.steps[step]);
    EXPECT_EQ(one.times.makespan, all.steps[step]);
  }
  EXPECT_EQ(all.distribution.median, all.steps[static_cast<std::size_t>(all.shown)]);
  EXPECT_LT(all.steps[0], all.steps[1]) << "the second microbatch of one replica counts";
  EXPECT_LT(all.steps[1], all.steps[2]);
  // Forward 10 + 1, backward 20 + 2 a token and stage, reductions hidden or not, and the step.
  EXPECT_GE(all.steps[0].count, 2 * 100 * (11 + 22));
}

TEST(SimulateRecorded, NamesAnotherNumberOfReplicas) {
  const RecordedSteps recorded{{{tokens(100)}}};
  EXPECT_THAT(words_of([&] {
                (void)simulate_recorded(text_plan(), TableCosts(false), small_cluster(4), {},
                                        recorded);
              }),
              testing::HasSubstr("found: 2 replicas; expected: 1"));
}

}  // namespace
}  // namespace tributary::simulate
