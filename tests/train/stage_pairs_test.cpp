#include <algorithm>
#include <gtest/gtest.h>

#include "config/plan/plan.h"
#include "mesh/mesh.h"
#include "schedule/order/all_orders.h"
#include "schedule/pipeline/lower_schedule.h"

namespace tributary::train {
namespace {

using config::PipelineOrder;

schedule::Pipeline make_pipeline(PipelineOrder order, int towers, int stages) {
  schedule::Pipeline pipeline;
  pipeline.microbatches = 2 * stages;
  const std::int64_t fixed = config::virtual_stages_of(order);
  if (towers > 0) {
    const bool splits = schedule::traits_of(order).splits_backward;
    pipeline.modules.push_back({.name = "vision",
                                .order = splits ? PipelineOrder::kZbH1 : PipelineOrder::k1f1b,
                                .stages = towers});
    pipeline.edges.push_back({.from = 0, .to = 1});
  }
  pipeline.modules.push_back({.name = "backbone",
                              .order = order,
                              .stages = stages,
                              .chunks = fixed == 0 ? 2 : static_cast<int>(fixed)});
  return pipeline;
}

TEST(StagePairs, CoverEveryMessageOfEveryOrder) {
  for (const PipelineOrder order :
       {PipelineOrder::kGpipe, PipelineOrder::k1f1b, PipelineOrder::kInterleaved,
        PipelineOrder::kZbH1, PipelineOrder::kZbV, PipelineOrder::kVHalf})
    for (const int towers : {0, 1, 2})
      for (const int stages : {2, 3, 4}) {
        const auto pairs = mesh::stage_pairs(stages);
        const auto is_met = [&](int a, int b) {
          return std::ranges::count(pairs, std::pair(a, b)) +
                     std::ranges::count(pairs, std::pair(b, a)) ==
                 1;
        };
        const schedule::Pipeline pipeline = make_pipeline(order, towers, stages);
        const schedule::Schedule lowered = schedule::lower_schedule(
            schedule::schedule_passes(pipeline), {.receive = 2, .send = 2});
        int messages = 0;
        for (int lane = 0; lane < std::ssize(lowered.lists); ++lane)
          for (const schedule::Action& action : lowered.lists[static_cast<std::size_t>(lane)]) {
            using schedule::Op;
            const bool is_along_stages =
                action.op == Op::kSendActivation || action.op == Op::kSendGradient;
            if (!is_along_stages || lane < towers) continue;  // a tower has a mesh of its own
            ++messages;
            EXPECT_TRUE(is_met(lane - towers, action.peer - towers))
                << schedule::traits_of(order).name << ", " << towers << " + " << stages
                << " stages: lane " << lane << " sends to " << action.peer;
          }
        EXPECT_GT(messages, 0);
      }
}

}  // namespace
}  // namespace tributary::train
