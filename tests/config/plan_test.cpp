#include "config/plan/plan.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/plan/stage_units.h"
#include "config/reading/ranges.h"
#include "core/error.h"
#include "core/json.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The example of docs/formats/plan.md.
std::string read_example() {
  std::ifstream page(TRIB_SOURCE_DIR "/docs/formats/plan.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string opens = "```json\n";
  const std::size_t begin = text.find(opens) + opens.size();
  return text.substr(begin, text.find("```", begin) - begin);
}
const std::string kPlan = read_example();

std::string refusal_of(const std::string& text) {
  return input_error_of([&] { (void)parse_plan(text, "plan.json"); });
}

/// The plan changed by one JSON merge patch.
std::string patched(const std::string& patch) {
  nlohmann::json json = nlohmann::json::parse(kPlan);
  json.merge_patch(nlohmann::json::parse(patch));
  return json.dump();
}

TEST(Plan, ReadsEveryKey) {
  const Plan plan = parse_plan(kPlan, "plan.json");
  ASSERT_EQ(plan.modules.size(), 3U);
  const ModulePlan& backbone = *plan.find("backbone");
  EXPECT_EQ(backbone.ranks.front(), 4);
  EXPECT_EQ(backbone.ranks.back(), 15);
  EXPECT_EQ(backbone.mesh, (MeshShape{.pp = 2, .dp_shard = 3, .tp = 2}));
  EXPECT_EQ(backbone.stages, (std::vector<StageLayers>{{.embed = true, .first = 0, .layers = 15},
                                                       {.first = 15, .layers = 13, .head = true}}));
  EXPECT_EQ(backbone.schedule, PipelineOrder::kZbH1);
  EXPECT_EQ(backbone.recompute, RecomputePlan::kSelective);
  EXPECT_EQ(backbone.train, TrainMode::kLora);
  EXPECT_EQ(plan.find("vision")->train, TrainMode::kFrozen);
  EXPECT_EQ(plan.find("projector")->placement, Placement::kInline);
  EXPECT_EQ(plan.find("audio"), nullptr);
  EXPECT_EQ(plan.edges[0], (EdgePlan{.from = "vision", .to = "projector"}));
  EXPECT_EQ(plan.batch.balance, Balance::kLpt2d);
  EXPECT_EQ(plan.predicted.step.count, 900);
  EXPECT_EQ(plan.predicted.peak_bytes[0].second.count, 5);
  EXPECT_EQ(plan.predicted.samples, PlannedSamples::kEqual);
  EXPECT_EQ(plan.predicted.sample_tokens, Tokens{2048});
  EXPECT_EQ(plan.training.adapter,
            (AdapterPlan{.kind = AdapterKind::kLora, .rank = 8, .targets = {"q_proj", "v_proj"}}));
}

TEST(Plan, SaysWhatTheRunTrainsWith) {
  Plan plan = parse_plan(kPlan, "plan.json");
  const std::string digest = plan_digest(plan);
  plan.training = {};
  EXPECT_EQ(write_plan(plan).find("training"), std::string::npos);
  plan.training = {.optimizer = OptimizerKind::kAdamW8bit, .averages = true};
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  EXPECT_EQ(plan_digest(plan), digest) << "it decides no placement";
  EXPECT_THAT(refusal_of(patched(R"({"training": {"optimizer": "sgd", "adapter": {"rank": 0,
                                     "targets": []}}})")),
              AllOf(HasSubstr("training.optimizer; found: \"sgd\""),
                    HasSubstr("training.adapter.rank; found: 0"),
                    HasSubstr("training.adapter.targets; found: []")));
}

TEST(Plan, ReadsBackWhatItWrites) {
  Plan plan = parse_plan(kPlan, "plan.json");
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  ModulePlan& vision = plan.modules[2];
  vision.placement = Placement::kFlow;
  vision.ranks = {0, 1, 2, 17};
  plan.edges[0].via = EdgeVia::kPool;
  EXPECT_THAT(write_plan(plan), HasSubstr("\"ranks\": \"0-2,17\""));
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  vision.placement = Placement::kColocated;
  vision.ranks = plan.find("backbone")->ranks;
  vision.mesh = {.dp_shard = std::ssize(vision.ranks)};
  vision.stages.clear();
  vision.passes = 2;
  vision.features = FeatureMemory::kHost;
  vision.mesh = {.dp_replicate = std::ssize(vision.ranks)};
  vision.turns = true;
  plan.edges[0].via = EdgeVia::kExchange;
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  vision.turns = false;
  vision.ahead = true;
  vision.train = TrainMode::kFrozen;
  EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
}

TEST(Plan, KeepsTheSamplesThatItWasJudgedWith) {
  const auto read = [](const std::string& predicted) {
    return parse_plan(patched("{\"predicted\": " + predicted + "}"), "plan.json").predicted;
  };
  EXPECT_EQ(read(R"({"samples": null, "sample_tokens": null})").samples, PlannedSamples::kUnknown);
  Plan plan = parse_plan(kPlan, "plan.json");
  for (const PlannedSamples samples : {PlannedSamples::kUnknown, PlannedSamples::kEqual,
                                       PlannedSamples::kMixture, PlannedSamples::kRecorded}) {
    plan.predicted.samples = samples;
    plan.predicted.sample_tokens = {samples == PlannedSamples::kEqual ? 4096 : 0};
    EXPECT_EQ(parse_plan(write_plan(plan), "again.json"), plan);
  }
  EXPECT_THAT(refusal_of(patched(R"({"predicted": {"samples": "equal", "sample_tokens": null}})")),
              HasSubstr("predicted.sample_tokens; found: no such key"));
  EXPECT_THAT(refusal_of(patched(R"({"predicted": {"samples": "mixture", "sample_tokens": 7}})")),
              HasSubstr("predicted.sample_tokens; found: 7"));
}

TEST(Plan, NamesAnUnknownKeyWithTheNearestKnownOne) {
  EXPECT_THAT(refusal_of(patched(R"({"modules": {"backbone": {"mesh": {"dp_shrad": 2}}}})")),
              AllOf(HasSubstr("unknown key; where: plan.json modules.backbone.mesh.\"dp_shrad\""),
                    HasSubstr("did you mean dp_shard?")));
  EXPECT_THAT(refusal_of(patched(R"({"moduls": {}})")), HasSubstr("did you mean modules?"));
  EXPECT_THAT(refusal_of(patched(R"({"modules": {"vision": {"shedule": "1f1b"}}})")),
              HasSubstr("did you mean schedule?"));
  EXPECT_THAT(refusal_of(patched(R"({"batch": {"zzzzzzzzz": 1}})")),
              HasSubstr("expected: one of balance, capacity_tokens, global_samples"));
  EXPECT_THAT(refusal_of(patched(R"({"predicted": {"step": 1}})")), HasSubstr("unknown key"));
  EXPECT_THAT(refusal_of(R"({"format": "tributary.plan/1", "edges": [{"form": "a"}]})"),
              AllOf(HasSubstr("edges.0.\"form\""), HasSubstr("did you mean from?")));
}

TEST(Plan, SaysOnceWhatAllItemsOfAListHave) {
  const std::string refusal = refusal_of(
      R"({"format": "tributary.plan/1", "edges": [{"form": "a"}, {"form": "b"}, {"from": 1}]})");
  EXPECT_THAT(
      refusal,
      AllOf(HasSubstr("edges.0.\"form\"; fix: did you mean from?; the same in 2 items"),
            Not(HasSubstr("edges.1")), HasSubstr("edges.2.from; found: 1"),
            HasSubstr("edges.0.to; found: no such key; expected: a text; the same in 3 items")));
}

TEST(Plan, TakesNoPartOfANameForTheItemOfAList) {
  const std::string refusal = refusal_of(R"({"format": "tributary.plan/1", "modules": {
      "llama-3.1": {"ranks": "0", "trian": 1}, "llama-3.2": {"ranks": "0", "trian": 1},
      "7": {"train": 1}, "8": {"train": 1}}})");
  for (const char* part : {"modules.\"llama-3.1\".\"trian\"", "modules.\"llama-3.2\".\"trian\"",
                           "modules.\"7\".train; found: 1", "modules.\"8\".train; found: 1"})
    EXPECT_THAT(refusal, HasSubstr(part));
  EXPECT_THAT(refusal, Not(HasSubstr("the same in")));
}

TEST(Plan, NamesThePathOfEveryWrongValue) {
  const std::string refusal = refusal_of(patched(
      R"({"modules": {"backbone": {"mesh": {"tp": 0}, "schedule": "zbh1", "ranks": "4-x"},
                      "vision": {"stages": [["3-1"]], "train": 1}},
          "edges": 3, "batch": {"microbatches": null}, "predicted": {"peak_bytes": []}})"));
  EXPECT_THAT(refusal, HasSubstr("8 problems"));
  for (const std::string part :
       {"modules.backbone.mesh.tp; found: 0; expected: a whole number from 1",
        "modules.backbone.schedule; found: \"zbh1\"; expected: one of gpipe 1f1b interleaved",
        "modules.backbone.ranks; found: \"4-x\"; expected: ascending ranks",
        "modules.vision.stages; found: [[\"3-1\"]]", "modules.vision.train; found: 1",
        "edges; found: 3; expected: a list of objects",
        "batch.microbatches; found: no such key; expected: a whole number",
        "predicted.peak_bytes; found: []"})
    EXPECT_THAT(refusal, HasSubstr(part));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("not a plan of this version"));
  EXPECT_THAT(refusal_of(R"({"format": "tributary.plan/2"})"),
              AllOf(HasSubstr("plan.json format"), HasSubstr("found: \"tributary.plan/2\""),
                    HasSubstr("expected: tributary.plan/1")));
  EXPECT_THAT(refusal_of(R"({"format": "tributary.plan/1", "modules": [], "batch": {}})"),
              HasSubstr("not a JSON object; where: plan.json modules"));
  EXPECT_THAT([] { (void)read_plan("/nowhere/plan.json"); },
              testing::ThrowsMessage<Error>(HasSubstr("file cannot be read")));
}

struct Rule {
  std::string patch;
  std::string words;
};

TEST(Plan, NamesEveryRuleBetweenKeysThatIsBroken) {
  const std::vector<Rule> rules{
      {R"({"modules": {"backbone": null}})", "plan has no backbone"},
      {R"({"modules": {"Big": {"placement": "inline"}}})", "module has no proper name"},
      {R"({"modules": {"backbone": {"placement": "inline"}}})", "backbone cannot be inline"},
      {R"({"modules": {"projector": {"ranks": "16"}}})", "inline module has a place of its own"},
      {R"({"modules": {"backbone": {"placement": "flow"}}})",
       "placement is not one of the backbone"},
      {R"({"modules": {"vision": {"ranks": "0-2"}}})",
       "ranks are not those of the mesh; where: plan.json modules.vision.ranks; found: 3 ranks"},
      {R"({"modules": {"vision": {"placement": "colocated"}}})",
       "colocated module is not on the backbone's ranks"},
      {R"({"modules": {"vision": {"placement": "colocated", "mesh": {"pp": 2}}}})",
       "colocated module is cut into stages"},
      {R"({"modules": {"vision": {"placement": "colocated", "passes": 1000}}})",
       "colocated module has more passes than microbatches"},
      {R"({"modules": {"vision": {"passes": 2}}})",
       "only a colocated module has passes of its own"},
      {R"({"modules": {"vision": {"turns": true}}})", "only a colocated module takes turns"},
      {R"({"modules": {"vision": {"ahead": true}}})", "only a colocated module encodes ahead"},
      {R"({"modules": {"vision": {"placement": "colocated", "train": "full", "ahead": true}}})",
       "module that trains cannot encode ahead; where: plan.json modules.vision.ahead; found: "
       "train full; expected: train frozen, or no such key"},
      {R"({"modules": {"vision": {"placement": "colocated", "ahead": true, "turns": true}}})",
       "module that encodes ahead takes turns by itself"},
      {R"({"modules": {"vision": {"recompute": "none", "recompute_every": 3}}})",
       "module recomputes nothing; where: plan.json modules.vision.recompute_every; found: 3"},
      {R"({"modules": {"vision": {"recompute": "full", "recompute_every": 1025}}})",
       "expected: a whole number from 1 to 1024"},
      {R"({"modules": {"vision": {"placement": "colocated", "turns": true}}})",
       "one pass has nothing to take turns with; where: plan.json modules.vision.turns"},
      {R"({"modules": {"vision": {"features": "host"}}})",
       "only features of a colocated module wait on hosts"},
      {R"({"modules": {"vision": {"share_percent": 30}}})", "only a sliced module has a share"},
      {R"({"modules": {"backbone": {"stages": [["0-14"], ["embed", "15-27", "head"]]}}})",
       "embedding is not on the first stage; where: plan.json modules.backbone.stages.1"},
      {R"({"modules": {"backbone": {"stages": [["embed", "0-14", "head"], ["15-27"]]}}})",
       "head is not on the last stage"},
      {R"({"modules": {"backbone": {"stages": [["embed", "0-14"], ["16-27", "head"]]}}})",
       "layers do not follow those of the stage before; where: plan.json "
       "modules.backbone.stages.1; found: layer 16; expected: layer 15"},
      {R"({"modules": {"backbone": {"schedule": "zb_v"}}})",
       "stages are not those of the schedule; where: plan.json modules.backbone.stages; found: 2 "
       "stages, pp 2, schedule zb_v; expected: 4 stages"},
      {R"({"modules": {"backbone": {"schedule": "interleaved"}}})", "a multiple of 2, twice"},
      {R"({"modules": {"backbone": {"schedule": "interleaved",
           "stages": [["embed"], ["0"], ["1"], ["head"]]}}, "batch": {"microbatches": 15}})",
       "do not fill the groups of interleaved; where: plan.json batch.microbatches; found: 15; "
       "expected: a multiple of pp 2; fix: set it to 16"},
      {R"({"modules": {"vision": {"schedule": "gpipe"}}})", "schedule is not one of an encoder"},
      {R"({"modules": {"vision": {"ranks": "3-6"}}})",
       "rank belongs to two modules; where: plan.json modules.vision.ranks; found: rank 4, also "
       "of backbone"},
      {R"({"modules": {"backbone": {"placement": "sliced", "share_percent": 80},
           "vision": {"placement": "sliced", "share_percent": 30, "ranks": "4-7"}}})",
       "slices are larger than the device; where: plan.json modules.vision.share_percent; found: "
       "110 percent of rank 4"},
      {R"({"modules": {"vision": {"placement": "sliced", "share_percent": 30, "ranks": "4-7"}}})",
       "rank of a slice is taken whole; where: plan.json modules.backbone.placement"},
      {R"({"edges": [{"from": "vison", "to": "backbone"}]})", "no such module"},
      {R"({"edges": [{"from": "vision", "to": "backbone"}, {"from": "vision", "to": "backbone"},
                     {"from": "projector", "to": "backbone"}]})",
       "edge is there twice"},
      {R"({"edges": [{"from": "vision", "to": "backbone", "via": "pool"},
                     {"from": "projector", "to": "backbone"}]})",
       "edge takes the wrong way; where: plan.json edges.0.via; found: pool; expected: exchange"},
      {R"({"edges": [{"from": "vision", "to": "projector"}, {"from": "projector", "to": "vision"}]})",
       "edges go round in a circle"},
      {R"({"edges": [{"from": "projector", "to": "backbone"}]})",
       "module is not connected to the backbone; where: plan.json edges; found: vision"},
      {R"({"batch": {"packing": "level", "balance": "none"}})",
       "packing level needs batch.balance; where: plan.json batch.packing"},
      {R"({"predicted": {"peak_bytes": {"audio": 1}}})", "predicted.peak_bytes.audio"},
  };
  for (const Rule& rule : rules)
    EXPECT_THAT(refusal_of(patched(rule.patch)), HasSubstr(rule.words));
}

TEST(Plan, SaysTheNearestValuesThatKeepARule) {
  const std::vector<Rule> rules{
      {R"({"modules": {"vision": {"ranks": "0-2"}}})",
       "set modules.vision.mesh.dp_shard to 3, or give it 4 ranks"},
      {R"({"modules": {"vision": {"mesh": {"tp": 3}}}})", "fix: give it 12 ranks"},
      {R"({"modules": {"vision": {"ranks": "3-6"}}})", "fix: set modules.vision.ranks to 0-3"},
      {R"({"modules": {"vision": {"ranks": "5,16-18"}}})",
       "fix: set modules.vision.ranks to 0,16-18"},
      {R"({"modules": {"vision": {"placement": "colocated"}}})",
       "expected: 4-15, or of the first stage 4-9; fix: set modules.vision.ranks to 4-15"},
      {R"({"modules": {"vision": {"placement": "colocated", "ranks": "4-15",
                                  "mesh": {"pp": 3, "dp_shard": 4}}}})",
       "fix: set modules.vision.mesh.pp to 1, and the product of the others to 12"},
      {R"({"modules": {"vision": {"placement": "colocated", "passes": 1000}}})",
       "expected: at most 16; fix: set modules.vision.passes to 16"},
      {R"({"edges": [{"from": "vison", "to": "backbone"}]})", "fix: did you mean vision?"},
      {R"({"edges": [{"from": "projector", "to": "backbone"}]})",
       "fix: add an edge from vision to its projector, or to backbone"},
  };
  for (const Rule& rule : rules)
    EXPECT_THAT(refusal_of(patched(rule.patch)), HasSubstr(rule.words));
}

TEST(Plan, MustNameTheLayersOfItsModel) {
  ModelConfig model;
  model.backbone.layers = 28;
  model.vision.emplace().layers = 27;
  const Plan plan = parse_plan(kPlan, "plan.json");
  EXPECT_NO_THROW(check_plan_of_model(plan, model, "plan.json"));
  model.backbone.layers = 29;
  model.vision->layers = 32;
  EXPECT_THAT([&] { check_plan_of_model(plan, model, "plan.json"); },
              testing::ThrowsMessage<Error>(AllOf(
                  HasSubstr("modules.backbone.stages; found: 28 layers, embed and head; expected: "
                            "29 layers, embed and head"),
                  HasSubstr("modules.vision.stages; found: 27 layers; expected: 32 layers"))));
}

TEST(Plan, MustNotNameAModuleThatItsModelLacks) {
  ModelConfig model;
  model.backbone.layers = 28;
  EXPECT_THAT([&] { check_plan_of_model(parse_plan(kPlan, "plan.json"), model, "plan.json"); },
              testing::ThrowsMessage<Error>(AllOf(
                  HasSubstr("plan has a module that the model lacks; where: plan.json "
                            "modules.projector; found: a text model; expected: only backbone"),
                  HasSubstr("modules.vision"))));
  model.vision.emplace().layers = 27;
  Plan plan = parse_plan(kPlan, "plan.json");
  plan.modules.push_back({.name = "sonar", .placement = Placement::kInline});
  EXPECT_THAT([&] { check_plan_of_model(plan, model, "plan.json"); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("modules.sonar; found: a model of backbone, vision, projector; "
                            "expected: no other module")));
}

TEST(Ranges, ReadBackAndRefuse) {
  for (const std::string text : {"0", "0-3", "0-3,8", "2,4,6-7"})
    EXPECT_EQ(write_ranks(parse_ranks(text).value()), text);
  for (const std::string text : {"", ",", "3-1", "1,1", "2,1", "a", "-1", "1-", "0-1048576", "1 2"})
    EXPECT_FALSE(parse_ranks(text).has_value()) << text;
  EXPECT_FALSE(parse_stage({}).has_value());
  EXPECT_FALSE(parse_stage({"0-3", "embed"}).has_value());
  EXPECT_FALSE(parse_stage({"head", "0-3"}).has_value());
  EXPECT_FALSE(parse_stage({"0-3", "4-5"}).has_value());
}

}  // namespace
}  // namespace tributary::config
