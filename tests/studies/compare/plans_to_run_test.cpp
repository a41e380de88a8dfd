#include "studies/compare/plans_to_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "schedule/pack.h"
#include "tests/plan/search/exact_case.h"

namespace tributary::studies {
namespace {

using config::Balance;
using testing::HasSubstr;
using testing::StartsWith;

class PlansToRun : public testing::Test {
 protected:
  PlansToRun() : problem_(plan::tiny_problem(4, 16, 1, 2)) {
    setting_.name = "one";
    setting_.run = config::StudyRun{.steps = 2, .warm_up_steps = 1};
  }

  std::map<std::string, PlanToRun> plan(std::vector<std::string> methods,
                                        const TrainerRefusal& refusal) {
    config::Study study;
    study.methods = std::move(methods);
    std::map<std::string, PlanToRun> plans;
    for (PlanToRun& made : plans_to_run(study, setting_, problem_, shapes(), refusal))
      plans[made.method] = std::move(made);
    return plans;
  }
  /// Shapes with the sizes of the problem's samples: equal pictures.
  SampleBatches shapes() const {
    SampleBatches batches;
    for (const auto& batch : problem_.batches) {
      batches.emplace_back();
      for (const simulate::SampleSize& size : batch) {
        SampleShape& shape = batches.back().emplace_back();
        shape.tokens = {size.tokens};
        if (size.items > 0)
          shape.images.assign(static_cast<std::size_t>(size.items),
                              {1, 1, size.patches / size.items});
      }
    }
    return batches;
  }
  static std::string accept(const config::Plan&) { return {}; }

  plan::PlanningProblem problem_;
  config::StudySetting setting_;
};

TEST_F(PlansToRun, KeepsTheDispatchOfTheMethod) {
  const auto plans = plan({"dflop", "dflop_without_scheduler", "loongforge_3", "search"}, accept);
  for (const auto& [name, made] : plans) {
    ASSERT_TRUE(made.plan) << name << ": " << made.reason;
    EXPECT_GT(made.simulated.count, 0) << name;
    EXPECT_EQ(made.plan->predicted.step, made.simulated) << name;
    EXPECT_NO_THROW(config::check_plan(*made.plan, name));
  }
  EXPECT_EQ(plans.at("dflop").plan->batch.balance, Balance::kLpt2d);
  EXPECT_EQ(plans.at("search").plan->batch.balance, Balance::kLpt2d);
  for (const char* name : {"dflop_without_scheduler", "loongforge_3"}) {
    EXPECT_EQ(plans.at(name).plan->batch.balance, Balance::kNone) << name;
    EXPECT_THAT(plans.at(name).text, HasSubstr(", samples in order")) << name;
  }
  EXPECT_EQ(plans.at("loongforge_3").plan->find("vision")->placement,
            config::Placement::kColocated);
}

TEST_F(PlansToRun, SaysWhyAMethodDoesNotRun) {
  const auto plans =
      plan({"optimus", "orchmllm", "pytorch_3d", "best_of_methods", "dflop", "search"},
           [](const config::Plan&) { return "of no kind"; });
  for (const auto& [name, made] : plans) EXPECT_FALSE(made.plan) << name;
  EXPECT_EQ(plans.at("optimus").reason,
            "the trainer has no such form: the encoder in idle time of all stages");
  EXPECT_THAT(plans.at("orchmllm").reason, HasSubstr("dealt anew between encoder and backbone"));
  EXPECT_THAT(plans.at("pytorch_3d").reason, StartsWith("a reference for tables"));
  EXPECT_THAT(plans.at("best_of_methods").reason, StartsWith("no system"));
  EXPECT_EQ(plans.at("dflop").reason, "`train` refuses its plan: of no kind");
  EXPECT_EQ(plans.at("search").reason, "`train` refuses its plan: of no kind");
}

TEST_F(PlansToRun, TheSearchTakesTheFirstPlanThatTrains) {
  std::string first;
  const auto refuse_first = [&](const config::Plan& plan) -> std::string {
    const std::string digest = config::plan_digest(plan);
    if (first.empty()) first = digest;
    return digest == first ? "the first" : "";
  };
  const PlanToRun made = plan({"search"}, refuse_first).at("search");
  ASSERT_TRUE(made.plan) << made.reason;
  EXPECT_NE(config::plan_digest(*made.plan), first);
  EXPECT_EQ(made.reason, "");
}

TEST_F(PlansToRun, InOrderNoReplicaHasMoreMicrobatchesThanThePlan) {
  const PlanToRun made = plan({"dflop"}, accept).at("dflop");
  ASSERT_TRUE(made.plan);
  for (const std::int64_t microbatches : {1, 2, 3, 8}) {
    config::Plan asked = *made.plan;
    asked.batch.microbatches = microbatches;
    const config::Plan plan = dispatched_in_order(problem_, asked);
    const config::MeshShape& mesh = plan.find("backbone")->mesh;
    const std::int64_t replicas = mesh.dp_replicate * mesh.dp_shard;
    std::int64_t max = 0;
    for (const auto& batch : problem_.batches)
      for (std::int64_t replica = 0; replica < replicas; ++replica) {
        std::vector<Tokens> own;
        for (std::size_t i = static_cast<std::size_t>(replica); i < batch.size();
             i += static_cast<std::size_t>(replicas))
          own.push_back({batch[i].tokens});
        max = std::max(max,
                       schedule::pack(plan.batch.packing, own, plan.batch.capacity_tokens).bins());
      }
    EXPECT_LE(max, microbatches);
    EXPECT_GE(plan.batch.capacity_tokens, problem_.longest_sample);
  }
}

}  // namespace
}  // namespace tributary::studies
