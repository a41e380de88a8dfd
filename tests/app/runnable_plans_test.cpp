#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "app/answers/plan_answer.h"
#include "app/answers/search_answer.h"
#include "config/run/mesh_shape.h"
#include "config/run/module_places.h"
#include "core/error.h"
#include "studies/compare/trainer_plan.h"
#include "tests/config/temporary_folder.h"

namespace tributary::app {
namespace {

using testing::HasSubstr;

constexpr const char* kText = R"({"model_type": "qwen3", "hidden_size": 256,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 512,
 "num_hidden_layers": 6, "vocab_size": 2048, "rms_norm_eps": 1e-6, "hidden_act": "silu",
 "max_position_embeddings": 4096, "rope_theta": 10000})";
constexpr const char* kExperts = R"({"model_type": "qwen3_moe", "hidden_size": 256,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 512,
 "num_hidden_layers": 6, "vocab_size": 2048, "num_experts": 8, "num_experts_per_tok": 2,
 "moe_intermediate_size": 128})";
constexpr const char* kUnknown = R"({"model_type": "janus",
 "vision_config": {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
   "intermediate_size": 256, "patch_size": 14},
 "text_config": {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8,
   "num_key_value_heads": 4, "intermediate_size": 512, "vocab_size": 2048}})";

/// Models by name, each in a folder of its own.
struct Models {
  TemporaryFolder folder = {};

  [[nodiscard]] std::string path(const std::string& name) const {
    const std::map<std::string, const char*> texts = {
        {"text", kText}, {"experts", kExperts}, {"unknown", kUnknown}};
    if (name == "demo") return str(TRIB_SOURCE_DIR, "/configs/demo_model");
    (void)folder.write(name + "/config.json", texts.at(name));
    return folder.path(name);
  }
};

PlanRequest request_of(const std::string& model) {
  PlanOptions options;
  options.model = {.text = model};
  options.devices = 4;
  options.global_samples = 16;
  options.tokens = 512;
  options.batches = 2;
  options.candidates = 60;
  return read_request(options);
}

/// Whether `train --plan` accepts a plan file of the model, by the checks that it makes first.
bool is_taken(const config::Plan& plan, const std::string& model, const TemporaryFolder& folder) {
  try {
    config::RunConfig run;
    run.parallel.plan = folder.write("plan.json", config::write_plan(plan));
    run = config::apply_plan(run);
    const config::ModelConfig config = config::read_model_config(model);
    (void)config::resolve_mesh(run.parallel, config::count_ranks(run.parallel), config);
    config::check_plan_of_model(plan, config, "plan.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput) << error.what();
    return false;
  }
  return true;
}

TEST(RunnablePlans, AreThoseThatTrainTakesAndComeFirst) {
  const Models models;
  for (const char* name : {"demo", "text", "experts", "unknown"}) {
    const std::string model = models.path(name);
    const PlanAnswer answer = answer_plan(request_of(model));
    ASSERT_FALSE(answer.plans.empty()) << answer.search.certificate.limit;
    bool others = false;
    for (const ListedPlan& listed : answer.plans) {
      SCOPED_TRACE(str(name, ": ", describe(answer.problem, listed.found.choice)));
      EXPECT_EQ(listed.trains(), is_taken(listed.found.plan, model, models.folder))
          << listed.refusal;
      EXPECT_FALSE(others && listed.trains()) << "behind one that does not train";
      others = others || !listed.trains();
      EXPECT_GT(listed.tokens_per_s, 0);
      EXPECT_GT(listed.mfu, 0);
      EXPECT_LT(listed.mfu, 1);
    }
    const bool is_known = std::string(name) == "demo" || std::string(name) == "text";
    EXPECT_EQ(answer.plans.front().trains(), is_known) << name;
    EXPECT_EQ(answer.search.certificate.value, answer.plans.front().found.step);
  }
}

TEST(RunnablePlans, OfEveryMethodAreThoseThatTrainTakes) {
  const Models models;
  int counted[2] = {0, 0};
  for (const char* name : {"demo", "unknown"}) {
    const std::string model = models.path(name);
    const PlanRequest request = request_of(model);
    const plan::PlanningProblem problem = problem_of(request);
    const auto levels = studies::recompute_levels(
        problem.model, problem.cluster, {.devices = problem.devices, .batches = problem.batches});
    for (const SearchAnswer& answer : answer_search({.method = kAllMethods}, levels)) {
      SCOPED_TRACE(str(name, ", ", answer.method));
      if (answer.plans.empty() || !answer.plans.front().form) continue;
      studies::TrainerPlan placed = studies::trainer_plan(problem, *answer.plans.front().form,
                                                          answer.plans.front().recompute);
      if (!placed.found) continue;
      const ListedPlan listed = list_plan(request, problem, *placed.found, placed.found->step);
      EXPECT_EQ(listed.trains(), is_taken(listed.found.plan, model, models.folder))
          << listed.refusal;
      ++counted[listed.trains() ? 1 : 0];
    }
  }
  EXPECT_GT(counted[0], 0) << "no plan that is refused was looked at";
  EXPECT_GT(counted[1], 0) << "no plan that trains was looked at";
}

TEST(RunnablePlans, ASearchAmongThemHasNoOthers) {
  const Models models;
  PlanRequest request = request_of(models.path("demo"));
  request.options.runnable = true;
  const PlanAnswer answer = answer_plan(request);
  ASSERT_FALSE(answer.plans.empty());
  for (const ListedPlan& listed : answer.plans) EXPECT_TRUE(listed.trains()) << listed.refusal;
  PlanRequest unknown = request_of(models.path("unknown"));
  unknown.options.runnable = true;
  EXPECT_THAT([&] { (void)answer_plan(unknown); },
              testing::ThrowsMessage<Error>(HasSubstr("the trainer runs no plan of this model")));
}

TEST(TrainerCheck, SaysWhatOfAPlanTheTrainerDoesNotDo) {
  const Models models;
  const TrainerCheck check({.name = "model", .text = models.path("demo")});
  EXPECT_EQ(check.refusal_of_model(), "");
  const PlanAnswer answer = answer_plan(request_of(models.path("demo")));
  config::Plan plan = answer.plans.front().found.plan;
  EXPECT_EQ(check.refusal_of(plan), "");
  for (config::ModulePlan& module : plan.modules)
    if (module.name == "backbone") module.train = config::TrainMode::kLora;
  EXPECT_EQ(check.refusal_of(plan), "of modules.backbone.train it takes full or frozen, not lora");
  const TrainerCheck unknown({.name = "model", .text = models.path("unknown")});
  EXPECT_THAT(unknown.refusal_of(plan), HasSubstr("model family is not known, found"));
  EXPECT_THAT(TrainerCheck({.name = "graph", .text = models.folder.write("graph.json", "{}")})
                  .refusal_of_model(),
              HasSubstr("the model is a module graph"));
}

}  // namespace
}  // namespace tributary::app
