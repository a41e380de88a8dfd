#include "config/run/module_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/family/known_modules.h"
#include "config/reading/ranges.h"
#include "config/run/run_config.h"
#include "core/error.h"
#include "tests/config/minimal_run.h"
#include "tests/config/small_model.h"
#include "tests/config/vision_section.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ParallelSection section_of(const std::vector<std::string>& overrides) {
  return parse(kMinimalRun, overrides).parallel;
}

/// The ranks of a run of `world` processes: `backbone 0-1; vision 2-4 dp_shard 3`.
std::string places_of(const std::vector<std::string>& overrides, std::int64_t world,
                      const ModelConfig& model = small_model(/*kv_heads=*/2)) {
  const ParallelSection parallel = section_of(overrides);
  try {
    const MeshShape mesh = resolve_mesh(parallel, world, model);
    Problems problems;
    const RunPlaces places = place_modules(parallel, mesh, front_modules(model), problems);
    EXPECT_TRUE(problems.empty());
    std::string text = str("backbone ", write_ranks(places.ranks));
    for (const ModulePlace& place : places.modules)
      text += str("; ", place.name, " ", write_ranks(place.ranks), " ", describe(place.mesh));
    return text;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kInput);
    return error.what();
  }
}

TEST(ModuleKeys, AreReadFromAFileAndFromTheCommandLine) {
  const ModuleSection expected{
      .module = "vision", .placement = Placement::kSeparate, .ranks = {2, 3, 4}, .dp_shard = {3}};
  EXPECT_EQ(vision_of(section_of({"parallel.vision.placement=separate",
                                  "parallel.vision.dp_shard=3", "parallel.vision.ranks=2-4"})),
            expected);
  const RunConfig config = parse(kMinimalRun + R"(parallel:
  vision:
    placement: separate
    ranks: 0,2
    tp: 2
    dp_shard: 1
)");
  EXPECT_EQ(vision_of(config.parallel).ranks, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(vision_of(config.parallel).tp, 2);
  const std::string text = write_run_config(config);
  EXPECT_THAT(text, HasSubstr("  vision:\n    placement: separate\n    ranks: \"0,2\"\n"));
  EXPECT_EQ(parse(text), config);
  EXPECT_EQ(vision_of(section_of({"parallel.vision={placement: colocated, tp: 1}"})).placement,
            Placement::kColocated);
}

TEST(ModuleKeys, AreThereForEveryEncoder) {
  for (const std::string& encoder : encoder_names())
    EXPECT_NO_THROW((void)section_of({str("parallel.", encoder, ".placement=separate")}));
  for (const KnownModule& each : known_modules()) {
    const std::string name(each.name);
    EXPECT_NO_THROW((void)parse(kMinimalRun, {"model.freeze=[" + name + "]"}));
    EXPECT_NO_THROW((void)parse(kMinimalRun, {"model.recompute=[" + name + "]"}));
    EXPECT_NO_THROW((void)parse(kMinimalRun, {"model.offload=[" + name + "]"}));
  }
}

TEST(ModuleKeys, RefuseUnknownKeysAndValues) {
  EXPECT_THAT(refusal_of(kMinimalRun, {"parallel.vision.dp_shrad=3"}),
              HasSubstr("fix: did you mean parallel.vision.dp_shard?"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"parallel.visoin.tp=3"}),
              HasSubstr("fix: did you mean parallel.vision?"));
  EXPECT_THAT(
      refusal_of(kMinimalRun, {"parallel.vision=separate"}),
      AllOf(HasSubstr("section is not a map; where: command line parallel.vision"),
            HasSubstr("keys below it: placement"),
            HasSubstr(
                "fix: write placement: separate below it, or parallel.vision.placement=separate")));
  EXPECT_THAT(refusal_of(kMinimalRun + "optimizer: adamw_bnb_8bit\n"),
              AllOf(HasSubstr("keys below it: kind, ..."), Not(HasSubstr("fix"))));
  EXPECT_THAT(refusal_of(kMinimalRun, {"parallel.vision.placement=sliced"}),
              HasSubstr("found: \"sliced\"; expected: one of inline, colocated, separate, flow"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"parallel.vision.ranks=4-2"}),
              HasSubstr("where: command line parallel.vision.ranks; found: \"4-2\"; expected: "
                        "ascending ranks and ranges as 2-4,8, or nothing"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"parallel.vision.tp=0"}),
              HasSubstr("expected: a whole number from 1 to 65536"));
}

TEST(ModuleKeys, OfEncodersBesideARunAreTheirNumber) {
  const std::vector<std::string> flow{"parallel.vision.placement=flow"};
  EXPECT_EQ(vision_of(section_of({flow[0], "parallel.vision.dp_replicate=3"})).dp_replicate, 3);
  for (const char* key : {"ranks=2", "tp=2", "dp_shard=2", "passes=2", "turns=true"})
    EXPECT_THAT(refusal_of(kMinimalRun, {flow[0], str("parallel.vision.", key)}),
                HasSubstr("key has no effect on a module with placement flow"));
  EXPECT_THAT(refusal_of(kMinimalRun, {flow[0], "batch.balance=lpt", "batch.correct_costs=true"}),
              HasSubstr("batch.correct_costs measures passes that wait for encoders"));
  const std::vector<std::string> arrival{flow[0], "pool.order=arrival",
                                         "batch.packing=online_best_fit"};
  EXPECT_THAT(refusal_of(kMinimalRun, arrival),
              HasSubstr("trains beside the run has no order by arrival; where: command line "
                        "pool.order; found: pool.order arrival, and vision trains"));
  std::vector<std::string> frozen = arrival;
  frozen.push_back("model.freeze=[vision]");
  EXPECT_EQ(vision_of(section_of(frozen)).placement, Placement::kFlow);
}

TEST(ModuleKeys, OfAnInlineModuleMeanNothing) {
  const std::vector<std::pair<std::string, std::string>> keys{
      {"ranks", "2"},       {"pp", "2"},         {"dp_replicate", "2"}, {"dp_shard", "1"},
      {"cp", "2"},          {"ulysses", "2"},    {"tp", "2"},           {"passes", "2"},
      {"features", "host"}, {"stages", "first"}, {"turns", "true"},     {"ahead", "true"}};
  for (const auto& [key, value] : keys)
    EXPECT_THAT(
        refusal_of(kMinimalRun, {str("parallel.vision.", key, "=", value)}),
        HasSubstr(str("key has no effect on an inline module; where: command line parallel.vision.",
                      key, "; found: ", key, " ", value,
                      "; expected: parallel.vision.placement separate or colocated")));
}

TEST(ModuleKeys, FollowThePlacement) {
  const std::string colocated = "parallel.vision.placement=colocated";
  EXPECT_THAT(refusal_of(kMinimalRun, {colocated, "parallel.vision.ranks=0-1"}),
              HasSubstr("colocated module lists ranks; where: command line "
                        "parallel.vision.ranks; found: ranks 0-1"));
  EXPECT_THAT(refusal_of(kMinimalRun, {colocated, "parallel.vision.pp=2"}),
              HasSubstr("colocated module is cut into stages; where: command line "
                        "parallel.vision.pp; found: pp 2; expected: 1"));
  EXPECT_THAT(
      refusal_of(kMinimalRun, {"parallel.vision.placement=separate", "parallel.vision.passes=2"}),
      HasSubstr("only a colocated module has passes of its own; where: command line "
                "parallel.vision.passes; found: passes 2"));
  EXPECT_THAT(refusal_of(kMinimalRun,
                         {"parallel.vision.placement=separate", "parallel.vision.features=host"}),
              HasSubstr("only features of a colocated module wait on hosts; where: command line "
                        "parallel.vision.features; found: features host"));
  EXPECT_THAT(refusal_of(kMinimalRun,
                         {"parallel.vision.placement=separate", "parallel.vision.stages=first"}),
              HasSubstr("only a colocated module lies beside stages; where: command line "
                        "parallel.vision.stages; found: stages first"));
  EXPECT_THAT(
      refusal_of(kMinimalRun, {"parallel.vision.placement=separate", "parallel.vision.turns=true"}),
      HasSubstr("only a colocated module takes turns; where: command line "
                "parallel.vision.turns; found: turns true"));
  EXPECT_THAT(
      refusal_of(kMinimalRun, {"parallel.vision.placement=separate", "parallel.vision.ahead=true"}),
      HasSubstr("only a colocated module encodes ahead; where: command line "
                "parallel.vision.ahead; found: ahead true"));
  EXPECT_THAT(refusal_of(kMinimalRun, {colocated, "parallel.vision_stages=2"}),
              HasSubstr("module is placed in two ways; where: command line "
                        "parallel.vision_stages; found: vision_stages 2, and "
                        "parallel.vision.placement; expected: one of them; fix: set "
                        "parallel.vision_stages to 0, and parallel.vision.pp to 2"));
}

TEST(ModuleKeys, EncodeAheadWhereFeaturesDependOnNoStep) {
  const auto refusal = [](std::vector<std::string> more) {
    more.insert(more.end(), {"parallel.vision.placement=colocated", "parallel.vision.ahead=true"});
    return refusal_of(kMinimalRun, more);
  };
  EXPECT_EQ(refusal({"model.freeze=[vision]"}), "accepted");
  EXPECT_THAT(refusal({}),
              HasSubstr("module that trains cannot encode ahead; where: command line "
                        "parallel.vision.ahead; found: vision trains; expected: false, or vision "
                        "in model.freeze"));
  EXPECT_THAT(refusal({"model.freeze=[vision]", "parallel.vision.turns=true"}),
              HasSubstr("module that encodes ahead takes turns by itself"));
  EXPECT_THAT(refusal({"model.freeze=[vision]", "objective.kind=dpo"}),
              HasSubstr("pairs are not encoded ahead"));
  EXPECT_THAT(refusal({"model.freeze=[vision]", "batch.balance=lpt", "batch.correct_costs=true"}),
              HasSubstr("media of a step ahead are dealt before this one is measured; where: "
                        "command line parallel.vision.ahead; found: batch.correct_costs true; "
                        "expected: one of the two keys"));
}

const std::string kSeparate = "parallel.vision.placement=separate";

TEST(PlaceModules, PutsASeparateModuleBehindTheBackbone) {
  const std::string vision = "; vision 2-4 pp 1, dp_replicate 1, dp_shard 3, cp 1, ulysses 1, tp 1";
  EXPECT_EQ(places_of({kSeparate, "parallel.dp_shard=2", "parallel.vision.dp_shard=3"}, 5),
            "backbone 0-1" + vision);
  EXPECT_EQ(places_of({kSeparate, "parallel.vision.dp_shard=3"}, 5), "backbone 0-1" + vision)
      << "the auto degree of the backbone";
  EXPECT_THAT(places_of({kSeparate}, 5), HasSubstr("backbone 0-3; vision 4 pp 1"));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.tp=3", "parallel.pp=2"}, 7),
              AllOf(HasSubstr("backbone 0-3; vision 4-6"), HasSubstr("tp 3")));
}

TEST(PlaceModules, TakesTheRanksThatAreListed) {
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.ranks=0,2"}, 5),
              HasSubstr("backbone 1,3-4; vision 0,2 pp 1, dp_replicate 1, dp_shard 2"));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.ranks=0-3", "parallel.vision.pp=2"}, 6),
              HasSubstr("backbone 4-5; vision 0-3 pp 2, dp_replicate 1, dp_shard 2"));
}

TEST(PlaceModules, PutsAColocatedModuleOnTheRanksOfTheBackbone) {
  const std::string colocated = "parallel.vision.placement=colocated";
  EXPECT_THAT(places_of({colocated, "parallel.tp=2"}, 4),
              HasSubstr("backbone 0-3; vision 0-3 pp 1, dp_replicate 1, dp_shard 4"));
  EXPECT_THAT(places_of({colocated, "parallel.pp=4", "parallel.vision.tp=2"}, 4),
              HasSubstr("vision 0-3 pp 1, dp_replicate 1, dp_shard 2, cp 1, ulysses 1, tp 2"));
  EXPECT_THAT(places_of({colocated, "parallel.vision.dp_shard=2"}, 4),
              HasSubstr("degrees of a module do not multiply to its ranks; where: parallel.vision; "
                        "found: pp 1, dp_replicate 1, dp_shard 2, cp 1, ulysses 1, tp 1: 2 ranks; "
                        "expected: 4 ranks, as many as the backbone has; fix: set "
                        "parallel.vision.dp_shard to 4"));
  EXPECT_THAT(places_of({colocated, "parallel.vision.tp=3"}, 4),
              HasSubstr("fix: set parallel.vision to degrees that multiply to 4"));
}

/// Modules of a model with two encoders, which no family has so far.
const std::vector<FrontModule> kTwoEncoders{
    {.name = "audio", .role = ModuleRole::kEncoder, .layers = 4, .feeds = "backbone"},
    {.name = "vision", .role = ModuleRole::kEncoder, .layers = 4, .feeds = "backbone"}};

TEST(PlaceModules, SharesOutTheRanksOfSeveralModules) {
  ParallelSection parallel;
  parallel.modules = {{.module = "audio", .placement = Placement::kSeparate, .dp_shard = {2}},
                      {.module = "vision", .placement = Placement::kSeparate, .dp_shard = {3}}};
  Problems problems;
  const MeshShape backbone{.dp_shard = 2};
  RunPlaces places = place_modules(parallel, backbone, kTwoEncoders, problems);
  EXPECT_EQ(write_ranks(places.ranks), "0-1");
  EXPECT_EQ(write_ranks(places.find("audio")->ranks), "2-3");
  EXPECT_EQ(write_ranks(places.find("vision")->ranks), "4-6");
  EXPECT_EQ(places.find("backbone"), nullptr);
  EXPECT_EQ(describe_separate_modules(parallel), "audio 2, vision 3");

  parallel.modules[1].ranks = {0, 1, 4};
  places = place_modules(parallel, backbone, kTwoEncoders, problems);
  EXPECT_EQ(write_ranks(places.ranks), "2-3");
  EXPECT_EQ(write_ranks(places.find("audio")->ranks), "5-6");
  EXPECT_EQ(write_ranks(places.find("vision")->ranks), "0-1,4");

  parallel.modules[0] = {.module = "audio", .placement = Placement::kColocated};
  places = place_modules(parallel, backbone, kTwoEncoders, problems);
  EXPECT_EQ(write_ranks(places.find("audio")->ranks), write_ranks(places.ranks));
  EXPECT_EQ(places.find("audio")->mesh, (MeshShape{.dp_shard = 2}));

  EXPECT_TRUE(problems.empty());
  parallel.modules[0] = {
      .module = "audio", .placement = Placement::kSeparate, .ranks = {1, 2}, .dp_shard = {2}};
  (void)place_modules(parallel, backbone, kTwoEncoders, problems);
  EXPECT_THAT([&] { problems.raise_if_any("run"); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("rank belongs to two modules; where: parallel.vision.ranks = 0-1,4; "
                            "found: rank 1, also of audio; expected: ranks of its own; fix: set "
                            "parallel.vision.ranks to 0,3-4")));
}

TEST(PlaceModules, NamesEveryRuleThatIsBroken) {
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.ranks=2-4", "parallel.vision.tp=2"}, 5),
              HasSubstr("degrees of a module do not multiply to its ranks; where: parallel.vision; "
                        "found: pp 1, dp_replicate 1, dp_shard 1, cp 1, ulysses 1, tp 2: 2 ranks; "
                        "expected: 3 ranks, as many as it lists; fix: give parallel.vision.ranks 2 "
                        "ranks"));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.ranks=2-4", "parallel.vision.dp_shard=2"}, 5),
              HasSubstr("fix: set parallel.vision.dp_shard to 3, or give parallel.vision.ranks 2 "
                        "ranks"));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.ranks=3-5"}, 5),
              HasSubstr("rank is not one of the run; where: parallel.vision.ranks = 3-5; found: "
                        "rank 5; expected: ranks 0 to 4: backbone 2, vision 3; fix: set "
                        "parallel.vision.ranks to 2-4"));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.pp=6"}, 8),
              AllOf(HasSubstr("module has fewer layers than stages; where: parallel.vision.pp = 6; "
                              "found: 4 layers; expected: at least one layer each; fix: set "
                              "parallel.vision.pp to 4 or less")));
  EXPECT_THAT(places_of({kSeparate, "parallel.vision.tp=5"}, 8),
              AllOf(HasSubstr("vision heads do not divide over the ranks; where: "
                              "parallel.vision.tp = 5; found: 6 vision heads"),
                    HasSubstr("columns of the vision mlp_width do not divide"),
                    HasSubstr("fix: set parallel.vision.tp to 3 or 6")));
  ModelConfig text = small_model(/*kv_heads=*/2);
  text.vision.reset();
  EXPECT_THAT(places_of({kSeparate}, 2, text),
              HasSubstr("model has no such module; where: parallel.vision.placement; found: a text "
                        "model; expected: inline: nothing to place; fix: set "
                        "parallel.vision.placement to inline"));
}

TEST(PlaceModules, ChecksATowerWithTheDegreesThatItHas) {
  // 6 heads do not divide over the 4 ranks of the backbone, but over the 2 of the tower.
  EXPECT_THAT(places_of({"parallel.tp=4"}, 4),
              HasSubstr("vision heads do not divide over the ranks; where: parallel.tp = 4"));
  EXPECT_THAT(places_of({kSeparate, "parallel.tp=4", "parallel.vision.tp=2"}, 6),
              HasSubstr("backbone 0-3; vision 4-5"));
}

TEST(ResolveMesh, LeavesTheRanksOfSeparateModulesOut) {
  const std::vector<std::string> apart{kSeparate, "parallel.vision.dp_shard=3"};
  const auto with = [&](const std::string& override_text) {
    std::vector<std::string> all = apart;
    all.push_back(override_text);
    return all;
  };
  EXPECT_EQ(resolve_mesh(section_of(apart), 5, small_model(/*kv_heads=*/2)),
            (MeshShape{.dp_shard = 2}));
  EXPECT_THAT(places_of(with("parallel.dp_shard=2"), 6),
              HasSubstr("axes do not multiply to the world size; where: parallel; found: pp 1, "
                        "dp_replicate 1, dp_shard 2, cp 1, ulysses 1, tp 1: 2 ranks; expected: 3 "
                        "ranks: 6 processes without those of vision 3; fix: set parallel.dp_shard "
                        "to 3, or start 5 processes"));
  EXPECT_THAT(
      places_of(with("parallel.tp=2"), 6),
      AllOf(HasSubstr("other axes do not divide the world size"),
            HasSubstr("3 ranks, the other axes take 2"), HasSubstr("start 5 or 7 processes")));
  EXPECT_THAT(places_of(apart, 3),
              HasSubstr("no rank is left for the backbone; where: parallel, vision 3; found: 3 "
                        "ranks; expected: 4 or more; fix: start 4 processes"));
  EXPECT_EQ(count_ranks(section_of(with("parallel.tp=2"))), 5);
}

TEST(ResolveMesh, NamesTheRanksOfThePlanThatItHas) {
  ParallelSection parallel = section_of(
      {kSeparate, "parallel.dp_shard=2", "parallel.vision.dp_shard=3", "parallel.plan=plan.json"});
  EXPECT_EQ(resolve_mesh(parallel, 5, small_model(/*kv_heads=*/2)), (MeshShape{.dp_shard = 2}));
  EXPECT_THAT([&] { (void)resolve_mesh(parallel, 4, small_model(/*kv_heads=*/2)); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("plan is for another number of ranks; where: plan.json; found: "
                                  "plan is for 5 ranks, 4 were started; expected: as many "
                                  "processes as the plan has ranks; fix: start 5 processes"),
                        Not(HasSubstr("problems")))));
}

}  // namespace
}  // namespace tributary::config
