#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "config/plan/plan.h"
#include "schedule/order/all_orders.h"

namespace tributary::schedule {
namespace {

using config::PipelineOrder;

std::uint64_t fnv_1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string text_of(PipelineOrder order, const OrderShape& shape) {
  const Result<StageLists> lists = list_passes(order, shape);
  return lists ? to_text(lists.value()) : lists.refusal().reason;
}

TEST(Orders, PutOffTheGradientsThatConfigurationsSay) {
  for (const OrderTraits& each : all_orders()) {
    EXPECT_EQ(each.splits_backward, config::splits_backward(each.order)) << each.name;
    EXPECT_EQ(each.chunks, config::virtual_stages_of(each.order)) << each.name;
  }
}

TEST(GoldenOrders, OfSmallPipelines) {
  EXPECT_EQ(text_of(PipelineOrder::k1f1b, {.stages = 3, .microbatches = 4}),
            "F0.0 F0.1 F0.2 BW0.0 F0.3 BW0.1 BW0.2 BW0.3\n"
            "F0.0 F0.1 BW0.0 F0.2 BW0.1 F0.3 BW0.2 BW0.3\n"
            "F0.0 BW0.0 F0.1 BW0.1 F0.2 BW0.2 F0.3 BW0.3\n");
  EXPECT_EQ(text_of(PipelineOrder::kInterleaved, {.stages = 2, .microbatches = 4, .chunks = 2}),
            "F0.0 F0.1 F1.0 F1.1 F0.2 BW1.0 F0.3 BW1.1 F1.2 BW0.0 F1.3 BW0.1 BW1.2 BW1.3 BW0.2 "
            "BW0.3\n"
            "F0.0 F0.1 F1.0 BW1.0 F1.1 BW1.1 F0.2 BW0.0 F0.3 BW0.1 F1.2 BW1.2 F1.3 BW1.3 BW0.2 "
            "BW0.3\n");
  EXPECT_EQ(text_of(PipelineOrder::kZbH1, {.stages = 3, .microbatches = 4}),
            "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3\n"
            "F0.0 F0.1 B0.0 F0.2 B0.1 W0.0 F0.3 B0.2 W0.1 B0.3 W0.2 W0.3\n"
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 W0.2 W0.3\n");
  EXPECT_EQ(text_of(PipelineOrder::kZbV, {.stages = 2, .microbatches = 3, .chunks = 2}),
            "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B1.1 W1.1 B0.0 W0.0 F1.2 B1.2 B0.1 W1.2 B0.2 W0.1 "
            "W0.2\n"
            "F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 F0.2 B0.0 W0.0 F1.2 B1.1 B0.1 B1.2 B0.2 W1.1 W0.1 W1.2 "
            "W0.2\n");
  EXPECT_EQ(text_of(PipelineOrder::kVHalf, {.stages = 2, .microbatches = 3, .chunks = 2}),
            "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B0.0 B1.1 W0.0 F1.2 B1.2 B0.1 W1.1 B0.2 W1.2 W0.1 "
            "W0.2\n"
            "F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 B0.0 W0.0 F0.2 F1.2 B1.1 B0.1 B1.2 B0.2 W1.1 W0.1 W1.2 "
            "W0.2\n");
}

OrderShape v_shape(int stages, int microbatches, PassTimes times = {}, Nanoseconds hop = {}) {
  return {.stages = stages,
          .microbatches = microbatches,
          .chunks = 2,
          .times = std::vector<PassTimes>(std::size_t{2} * stages, times),
          .hop = hop};
}

struct Golden {
  PipelineOrder order;
  OrderShape shape;
  std::uint64_t hash;
  std::size_t actions;
};

/// Digests on which two independent implementations agree;
/// docs/theory/parallelism.md, "Reference orders".
std::vector<Golden> golden_orders() {
  using enum PipelineOrder;
  return {
      {kGpipe, {.stages = 4, .microbatches = 8}, 0x4d7f7ea1768dc215, 64},
      {k1f1b, {.stages = 4, .microbatches = 8}, 0x1307c11830eeb7ab, 64},
      {k1f1b, {.stages = 8, .microbatches = 32}, 0x5fb8bb439d9bcd3d, 512},
      {k1f1b, {.stages = 4, .microbatches = 2}, 0xa9a91b4f8118d093, 16},
      {kInterleaved, {.stages = 4, .microbatches = 8, .chunks = 2}, 0x7a60e045116a73c3, 128},
      {kInterleaved,
       {.stages = 4, .microbatches = 8, .chunks = 2, .extra_warm_up = 1},
       0x3a25238926700b77,
       128},
      {kInterleaved, {.stages = 8, .microbatches = 32, .chunks = 4}, 0x635eeb9ad7660a61, 2048},
      {kZbH1, {.stages = 4, .microbatches = 8}, 0x8d5e7d5d41f43d29, 96},
      {kZbH1, {.stages = 8, .microbatches = 32}, 0x7099c4ef6c19864d, 768},
      {kZbV, v_shape(3, 2), 0xd83c8976a56f1569, 36},
      {kZbV, v_shape(4, 8), 0xa478221d915dc971, 192},
      {kZbV, v_shape(8, 32), 0x242f6c3f068504ab, 1536},
      {kZbV, v_shape(8, 32, {{100}, {115}, {85}}), 0x4fcfe2dca1b7999b, 1536},
      {kZbV, v_shape(8, 9, {{10}, {8}, {14}}), 0xb663de88c1c69d8f, 432},
      {kZbV, v_shape(4, 16, {{100}, {130}, {70}}, {10}), 0x6709e2beb3687e9d, 384},
      {kVHalf, v_shape(4, 8), 0x39054c883567bc05, 192},
      {kVHalf, v_shape(5, 20), 0xce7e56a10de20cb1, 600},
      {kVHalf, v_shape(8, 32), 0xfa9a471e711d9a31, 1536},
      {kVMin, v_shape(4, 8), 0xb0115fd20c427d41, 192},
      {kVMin, v_shape(6, 24), 0x9b01d257bef54417, 864},
  };
}

TEST(GoldenOrders, HaveTheRecordedDigests) {
  for (const Golden& golden : golden_orders()) {
    SCOPED_TRACE(str(traits_of(golden.order).name, " ", golden.shape.stages, " stages, ",
                     golden.shape.microbatches, " microbatches"));
    const StageLists lists = list_passes(golden.order, golden.shape).value();
    std::size_t actions = 0;
    for (const ActionList& list : lists) actions += list.size();
    EXPECT_EQ(actions, golden.actions);
    EXPECT_EQ(fnv_1a(to_text(lists)), golden.hash);
  }
}

TEST(AllOrders, HaveEachOrderOnceUnderItsName) {
  std::set<std::string_view> names;
  for (const OrderTraits& traits : all_orders()) {
    EXPECT_EQ(&traits_of(traits.order), &traits);
    EXPECT_TRUE(names.insert(traits.name).second) << traits.name;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("gpipe", "1f1b", "interleaved", "zb_h1", "zb_v",
                                                   "v_half", "v_min"));
}

TEST(ListPasses, RefusesWhatAnOrderCannotDo) {
  const auto reason = [](PipelineOrder order, const OrderShape& shape) {
    const Result<StageLists> lists = list_passes(order, shape);
    return lists ? "accepted" : lists.refusal().reason;
  };
  EXPECT_EQ(reason(PipelineOrder::k1f1b, {.stages = 0, .microbatches = 4}),
            "0 stages and 4 microbatches; at least 1 of each are needed");
  EXPECT_EQ(reason(PipelineOrder::kZbV, {.stages = 2, .microbatches = 4}),
            "zb_v takes 2 virtual stages a stage, not 1");
  EXPECT_EQ(reason(PipelineOrder::kInterleaved, {.stages = 2, .microbatches = 4}),
            "interleaved takes at least 2 virtual stages a stage, not 1");
  EXPECT_EQ(reason(PipelineOrder::kGpipe, {.stages = 2, .microbatches = 4, .times = {{}}}),
            "1 pass times for 2 virtual stages");
  EXPECT_EQ(reason(PipelineOrder::kInterleaved, {.stages = 4, .microbatches = 6, .chunks = 2}),
            "interleaved with groups of 4 microbatches on 4 stages leaves 2 of 6 for the last "
            "group, which is short of the stages");
  EXPECT_EQ(reason(PipelineOrder::kInterleaved,
                   {.stages = 4, .microbatches = 13, .chunks = 2, .group = 8}),
            "accepted");
}

}  // namespace
}  // namespace tributary::schedule
