#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/run/read_run_config.h"
#include "core/error.h"
#include "tests/config/minimal_run.h"
#include "tests/config/temporary_folder.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadRunConfig, TakesDefaultsForEverythingButModelAndSources) {
  const RunConfig config = parse(kMinimalRun);
  RunConfig expected;
  expected.model.path = "models/tiny";
  expected.data.sources = {{.name = "shapes", .path = "shapes.jsonl"}};
  EXPECT_EQ(config, expected);
  EXPECT_EQ(run_directory(config), "runs/run");
}

TEST(ReadRunConfig, ReadsEveryKindOfValue) {
  const RunConfig config = parse(kMinimalRun + R"(      weight: 2.5
  train_on_newline: false
run: {name: "été", steps: 12, seed: 9007199254740991}
optimizer:
  learning_rate: 3e-4
  groups:
    - {match: vision, learning_rate_scale: 0.1}
    - {match: "*.bias", weight_decay: 0}
schedule: {decay: warmup_stable_decay, warmup_steps: 2, decay_steps: 10}
batch: {capacity_tokens: 512, packing: online_best_fit}
checkpoint:
)",
                                 {"run.name=demo"});
  EXPECT_EQ(config.run.name, "demo");
  EXPECT_EQ(config.run.seed, 9007199254740991u);
  EXPECT_EQ(config.data.sources[0].weight, 2.5);
  EXPECT_FALSE(config.data.train_on_newline);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  ASSERT_EQ(config.optimizer.groups.size(), 2u);
  EXPECT_EQ(config.optimizer.groups[0].learning_rate_scale, 0.1);
  EXPECT_EQ(config.optimizer.groups[0].weight_decay, -1.0);
  EXPECT_EQ(config.optimizer.groups[1].match, "*.bias");
  EXPECT_EQ(config.schedule.decay, Decay::kWarmupStableDecay);
  EXPECT_EQ(config.batch.capacity_tokens.count, 512);
  EXPECT_EQ(config.batch.packing, Packing::kOnlineBestFit);
}

TEST(ReadRunConfig, TakesOverridesOfValuesListsAndItems) {
  const RunConfig config = parse(
      kMinimalRun, {"data.sources.0.weight=2", "model.freeze=[vision, projector]", "run.steps=7",
                    "data.system_prompt=Say: \"yes\" # or no", "run.dir=", "run.steps=9",
                    "optimizer.groups=[{match: backbone, weight_decay: 0.5}]"});
  EXPECT_EQ(config.data.sources[0].weight, 2.0);
  EXPECT_THAT(config.model.freeze, ElementsAre("vision", "projector"));
  EXPECT_EQ(config.run.steps, 9);
  EXPECT_EQ(config.data.system_prompt, "Say: \"yes\" # or no");
  EXPECT_EQ(config.run.dir, "");
  EXPECT_EQ(config.optimizer.groups[0].weight_decay, 0.5);
}

TEST(ReadRunConfig, RefusesADrillThatWouldNeverStrike) {
  EXPECT_EQ(parse(kMinimalRun, {"drill.step=5000"}).drill.fault, DrillFault::kNone);
  EXPECT_THAT(refusal_of(kMinimalRun, {"drill.fault=kill", "drill.step=5000"}),
              HasSubstr("found: step 5000, run.steps 1000"));
  const std::vector<std::string> checkpoint{"drill.fault=stop", "drill.section=checkpoint"};
  EXPECT_THAT(refusal_of(kMinimalRun, checkpoint), HasSubstr("no checkpoint to strike at"));
  for (const char* step : {"drill.step=100", "drill.step=1000"}) {
    std::vector<std::string> saved = checkpoint;
    saved.emplace_back(step);
    EXPECT_EQ(parse(kMinimalRun, saved).drill.section, DrillPlace::kCheckpoint);
  }
}

TEST(ReadRunConfig, TakesAutoWithAndWithoutQuotes) {
  for (const char* text :
       {"parallel: {tp: auto}", "parallel: {tp: \"auto\"}", "parallel: {tp: 'auto'}"})
    EXPECT_TRUE(parse(kMinimalRun + text).parallel.tp.is_auto()) << text;
  EXPECT_TRUE(parse(kMinimalRun, {"parallel.tp='auto'"}).parallel.tp.is_auto());
  EXPECT_THAT(refusal_of(kMinimalRun + "parallel: {tp: \"2\"}"),
              HasSubstr("found: \"2\"; expected: a whole number from 1 to 65536, or auto"));
}

TEST(ReadRunConfig, TakesAWholeConfigurationFromOverrides) {
  const RunConfig config = parse("", {"model.path=m", "data.sources=[{name: a, path: b}]"});
  EXPECT_EQ(config.data.sources[0].path, "b");
}

TEST(ReadRunConfig, ReportsEveryProblemWithItsLine) {
  const std::string refusal = refusal_of(R"(run:
  steps: many
  sede: 3
model:
  path: m
  dtype: float16
optimiser:
  learning_rate: 1
)");
  EXPECT_THAT(refusal, HasSubstr("config: 5 problems; where: run.yaml"));
  EXPECT_THAT(refusal, HasSubstr("value cannot be used; where: run.yaml:2 run.steps; found: many; "
                                 "expected: a whole number from 1 to 1000000000000"));
  EXPECT_THAT(refusal, HasSubstr("unknown key; where: run.yaml:3 \"run.sede\"; fix: did you mean "
                                 "run.seed?"));
  EXPECT_THAT(refusal, HasSubstr("where: run.yaml:6 model.dtype; found: float16; expected: one of "
                                 "float32, bfloat16"));
  EXPECT_THAT(refusal, AllOf(HasSubstr("where: run.yaml:7 \"optimiser\"; fix: did you mean "
                                       "optimizer?")));
  EXPECT_THAT(refusal, HasSubstr("required key is missing; where: run.yaml; expected: "
                                 "data.sources: ..."));
}

TEST(ReadRunConfig, FindsAKeyThatStandsInAnotherSection) {
  EXPECT_THAT(refusal_of(kMinimalRun + "learning_rate: 1\n"),
              HasSubstr("did you mean optimizer.learning_rate?"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"run.learning_rat=1"}),
              AllOf(HasSubstr("command line \"run.learning_rat\""),
                    HasSubstr("did you mean optimizer.learning_rate?")));
  EXPECT_THAT(refusal_of(kMinimalRun + "zzzzzzzzzz: 1\n"),
              HasSubstr("the sections are run model adapter objective data"));
}

TEST(ReadRunConfig, InterleavedHasTwoVirtualStagesUnlessSet) {
  EXPECT_EQ(parse(kMinimalRun, {"parallel.schedule=interleaved"}).parallel.virtual_stages, 2);
  EXPECT_EQ(parse(kMinimalRun, {"parallel.schedule=interleaved", "parallel.virtual_stages=3"})
                .parallel.virtual_stages,
            3);
  EXPECT_EQ(parse(kMinimalRun).parallel.virtual_stages, 1);
  // A wrong number of virtual stages is refused, not replaced.
  EXPECT_EQ(parse(kMinimalRun, {"parallel.schedule=interleaved", "parallel.virtual_stages=1"})
                .parallel.virtual_stages,
            1);
}

struct BadText {
  std::string text;
  std::vector<std::string> words;
};

class RefusesText : public ::testing::TestWithParam<BadText> {};

TEST_P(RefusesText, WithItsCauseAndPlace) {
  const std::string refusal = refusal_of(GetParam().text);
  for (const std::string& word : GetParam().words)
    EXPECT_THAT(refusal, HasSubstr(word)) << GetParam().text.substr(0, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, RefusesText,
    ::testing::Values(
        BadText{"", {"2 problems", "model.path: ...", "data.sources: ..."}},
        BadText{"just words", {"file is not a map of sections", "found: just words"}},
        BadText{"- 1\n", {"file is not a map of sections", "found: a list of 1"}},
        BadText{"run: {steps: 1\n", {"not valid YAML", "run.yaml:"}},
        BadText{"run:\n\tsteps: 1\n", {"not valid YAML", "run.yaml:2"}},
        BadText{"a: 1\n---\nb: 1\n", {"more than one YAML document"}},
        BadText{"\xEF\xBB\xBF" + kMinimalRun, {"byte order mark", "run.yaml:1", "EF BB BF"}},
        BadText{kMinimalRun + "run: {name: \"a\xC3(\"}\n", {"not UTF-8", "run.yaml:7"}},
        BadText{kMinimalRun + "# \xED\xA0\x80\n", {"not UTF-8", "run.yaml:7"}},
        BadText{kMinimalRun + std::string("# \0\n", 4), {"not UTF-8", "zero bytes"}},
        BadText{std::string((1 << 20) + 1, '#'), {"larger than the limit", "1048577 bytes"}},
        BadText{kMinimalRun + "include: run.yaml\n", {"unknown key", "run.yaml:7 \"include\""}},
        BadText{kMinimalRun + "run:\n  steps: 1\n  steps: 2\n",
                {"duplicate key", "run.yaml:9", "found: steps", "the first is at run.yaml:8"}},
        BadText{kMinimalRun + "run: &r\n  steps: 1\n", {"anchors are not allowed", "run.yaml:7"}},
        BadText{kMinimalRun + "run:\n  name: &n a\n  dir: *n\n",
                {"anchors are not allowed", "aliases are not allowed", "run.yaml:9"}},
        BadText{kMinimalRun + "run:\n  <<: {steps: 1}\n",
                {"merge keys are not allowed", "run.yaml:8"}},
        BadText{kMinimalRun + "run:\n  steps: !!int 1\n", {"tags are not allowed", "run.yaml:8"}},
        BadText{kMinimalRun + "? [a]\n: 1\n", {"key is not a text", "found: a list of 1"}},
        BadText{std::string(3000, '[') + std::string(3000, ']'), {"not valid YAML"}}));

INSTANTIATE_TEST_SUITE_P(
    Values, RefusesText,
    ::testing::Values(
        BadText{kMinimalRun + "run: {steps: 0}", {"run.steps", "found: 0", "from 1 to"}},
        BadText{kMinimalRun + "run: {steps: -5}", {"run.steps", "found: -5"}},
        BadText{kMinimalRun + "run: {steps: 1.5}", {"run.steps", "found: 1.5", "a whole number"}},
        BadText{kMinimalRun + "run: {steps: \"5\"}", {"run.steps", "found: \"5\""}},
        BadText{kMinimalRun + "run: {steps: }", {"run.steps", "found: nothing"}},
        BadText{kMinimalRun + "run: {steps: [5]}", {"run.steps", "found: [5]"}},
        BadText{kMinimalRun + "run: {steps: 99999999999999999999}",
                {"run.steps", "99999999999999999999"}},
        BadText{kMinimalRun + "run: {seed: -1}", {"run.seed", "from 0 to 9007199254740991"}},
        BadText{kMinimalRun + "run: {threads: 5000}", {"run.threads", "0 to 4096"}},
        BadText{kMinimalRun + "batch: {global_samples: 1048577}",
                {"global_samples", "1 to 1048576"}},
        BadText{kMinimalRun + "batch: {capacity_tokens: 16777217}",
                {"capacity_tokens", "found: 16777217", "1 to 16777216"}},
        BadText{kMinimalRun + "batch: {global_samples: 18446744073709551617}",
                {"global_samples", "found: 18446744073709551617", "1 to 1048576"}},
        BadText{kMinimalRun + "run: 5", {"section is not a map", "run.yaml:7 run", "found: 5"}},
        BadText{kMinimalRun + "run: {name: {a: b}}", {"run.name", "a map with a", "a text"}},
        BadText{kMinimalRun + "run: {name: ~}", {"run.name", "found: nothing"}},
        BadText{kMinimalRun + "run: {name: ../x}", {"cannot name a directory", "../x"}},
        BadText{kMinimalRun + "run: {device: tpu}", {"device is not known", "\"tpu\"", "cuda:<n>"}},
        BadText{kMinimalRun + "run: {device: \"cuda:-1\"}", {"device is not known"}},
        BadText{kMinimalRun + "optimizer: {learning_rate: .nan}",
                {"optimizer.learning_rate", "found: .nan", "a finite number above 0 to 1000"}},
        BadText{kMinimalRun + "optimizer: {learning_rate: nan}", {"found: nan", "a finite number"}},
        BadText{kMinimalRun + "optimizer: {learning_rate: .inf}", {"found: .inf"}},
        BadText{kMinimalRun + "optimizer: {learning_rate: 1e999}", {"found: 1e999"}},
        BadText{kMinimalRun + "optimizer: {learning_rate: 0}", {"found: 0", "above 0"}},
        BadText{kMinimalRun + "optimizer: {beta2: 1}", {"optimizer.beta2", "from 0 to below 1"}},
        BadText{kMinimalRun + "optimizer: {groups: [{weight_decay: 1}]}",
                {"required key is missing", "optimizer.groups.0.match: ..."}},
        BadText{kMinimalRun + "optimizer: {groups: [{match: a, weight_decay: -0.5}]}",
                {"optimizer.groups.0.weight_decay", "-0.5", "-1 (keeps"}},
        BadText{kMinimalRun + "optimizer: {groups: {match: a}}",
                {"optimizer.groups", "a list of maps"}},
        BadText{kMinimalRun + "optimizer: {groups: [3]}", {"list item is not a map", "groups.0"}},
        BadText{kMinimalRun + "checkpoint: {async: yes}",
                {"checkpoint.async", "found: yes", "true or"}},
        BadText{kMinimalRun + "checkpoint: {every: -1}",
                {"checkpoint.every", "found: -1", "from 0 to"}},
        BadText{kMinimalRun + "checkpoint: {keep_latest: 1}",
                {"keep_latest", "found: 1", "from 2"}},
        BadText{kMinimalRun + "model: {freeze: [language]}", {"duplicate key", "model"}},
        BadText{
            "model: {path: m, freeze: [language]}",
            {"model.freeze", "[language]", "vision, audio, projector, audio_projector, backbone"}},
        BadText{"model: {path: m, freeze: vision}",
                {"model.freeze", "found: vision", "a list", "fix: write [vision]"}},
        BadText{"model: {path: \"\"}", {"value is empty", "model.path"}},
        BadText{"data: {sources: []}", {"data.sources", "at least one item"}},
        BadText{"data: {sources: [{name: a}]}", {"data.sources.0.path: ..."}},
        BadText{"data: {sources: [{name: a, path: b, weight: 0}]}",
                {"data.sources.0.weight", "above 0"}},
        BadText{"data: {sources: [{name: a b, path: b}]}", {"data.sources.0.name", "\"a b\""}},
        BadText{"data: {sources: [{name: overall, path: b}]}", {"reserved", "overall"}},
        BadText{"data: {sources: [{name: a, path: b}, {name: a, path: c}]}",
                {"two sources have one name", "data.sources.1.name"}},
        BadText{"data: {sources: [{name: a, path: b, held_out: b}]}",
                {"held out from itself", "data.sources.0.held_out"}}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, RefusesText,
    ::testing::Values(
        BadText{kMinimalRun + "batch: {packing: level}",
                {"number of level microbatches is missing", "batch.microbatches (default)",
                 "at least 1"}},
        BadText{kMinimalRun + "batch: {microbatches: 4}",
                {"number of microbatches has no effect", "batch.microbatches", "found: 4"}},
        BadText{kMinimalRun + "run: {device: cuda}\nbatch: {correct_costs: true}",
                {"batch.correct_costs needs times that the device does not give",
                 "batch.correct_costs", "correct_costs true on cuda"}},
        BadText{kMinimalRun + "batch: {packing: level, microbatches: 4, balance: none}",
                {"packing level needs batch.balance", "batch.packing", "lpt"}},
        BadText{kMinimalRun + "adapter: {rank: 4}\n", {"keys of the adapter have no effect"}},
        BadText{kMinimalRun + "adapter: {kind: lora, targets: []}\n", {"adapter has no target"}},
        BadText{kMinimalRun + "adapter: {kind: lora}\noptimizer: {kind: muon}\n",
                {"Muon has no matrices beside adapters", "optimizer.kind"}},
        BadText{kMinimalRun + "objective: {beta: 0.5}\n",
                {"keys of the objective have no effect", "objective.kind", "dpo"}},
        BadText{kMinimalRun + "objective: {kind: dpo, loss: ipo, label_smoothing: 0.1}\n",
                {"label smoothing has no effect", "label_smoothing 0.1 with loss ipo"}},
        BadText{kMinimalRun + "  too_long: truncate\nobjective: {kind: dpo}\n",
                {"pairs of answers are never cut", "data.too_long"}},
        BadText{
            kMinimalRun + "validation: {max_new_tokens: 4, blind: true}\nobjective: {kind: dpo}",
            {"a validation of pairs generates no answers", "no validation.max_new_tokens",
             "no validation.blind"}},
        BadText{kMinimalRun + "batch: {costs: a.json}\nobjective: {kind: dpo}\n",
                {"costs hold no times of the reference"}},
        BadText{kMinimalRun + "optimizer: {momentum: 0.5}\n", {"momentum has no effect"}},
        BadText{kMinimalRun + "validation: {stop_after: 2}\n",
                {"stop_after needs validations on the way"}},
        BadText{kMinimalRun + "validation: {min_gain: 0.1}\n", {"min_gain has no effect"}},
        BadText{kMinimalRun + "schedule: {decay_steps: 5}\n", {"decay steps have no effect"}},
        BadText{kMinimalRun + "schedule: {decay: warmup_stable_decay}\n",
                {"decay steps are missing"}},
        BadText{kMinimalRun + "schedule: {decay: constant, final_ratio: 0.5}\n",
                {"final ratio has no effect"}},
        BadText{
            kMinimalRun + "  max_tokens: 8192\n",
            {"batch.capacity_tokens is below data.max_tokens", "batch.capacity_tokens (default)",
             "capacity_tokens 4096", "data.max_tokens 8192"}},
        BadText{kMinimalRun + "  min_pixels: 5000\n  max_pixels: 4000\n",
                {"data.min_pixels is above data.max_pixels", "run.yaml:7 data.min_pixels"}},
        BadText{"model: {path: m, dtype: bfloat16}",
                {"dtype is not supported on the device", "bfloat16 on cpu", "run.device to cuda"}},
        BadText{"model: {path: m, freeze: [vision, audio, projector, audio_projector, backbone]}",
                {"nothing is left to train"}},
        BadText{"model: {path: m, recompute: [vision, vision]}", {"module is listed twice"}},
        BadText{"pool: {engines: [tcp, tcp]}", {"engine is listed twice"}},
        BadText{"pool: {engines: []}", {"pool.engines", "nothing may move features"}},
        BadText{"pool: {encoders: 1, min_encoders: 2, max_encoders: 3}",
                {"numbers of encoders do not fit", "min 2, at the start 1, max 3"}},
        BadText{"pool: {encoders: 4, max_encoders: 3}", {"numbers of encoders do not fit"}},
        BadText{"pool: {encoders: 1, min_encoders: 1}", {"numbers of encoders do not fit"}},
        BadText{"pool: {engines: [cuda, memfd]}",
                {"features cannot go from device to device", "run.device cpu"}},
        BadText{"run: {device: cuda}\npool: {engines: [cuda]}\n"
                "parallel: {vision: {placement: flow}}",
                {"tower that trains does not go from device to device", "vision in model.freeze"}},
        BadText{"model: {path: m, recompute: [vision, vision.mlp]}", {"recomputed in two ways"}},
        BadText{"model: {path: m, recompute: [vision, vision/2]}", {"recomputed in two ways"}},
        BadText{"model: {path: m, recompute: [projector/2]}",
                {"no layers of which every nth could run again", "projector/2"}},
        BadText{"model: {path: m, recompute: [vision], offload: [vision]}",
                {"recomputed in two ways"}},
        BadText{kMinimalRun + "run: {dir: models/tiny}\n", {"run writes into the model it reads"}},
        BadText{kMinimalRun + "validation: {every: 5}\n", {"validation has no held-out samples"}},
        BadText{kMinimalRun + "validation: {blind: true}\n",
                {"validation has no held-out samples"}},
        BadText{kMinimalRun + "optimizer: {groups: [{match: a}, {match: a}]}\n",
                {"group can never match", "optimizer.groups.1.match"}}));

TEST(ReadRunConfig, ReadsRecomputeOfEveryNthLayer) {
  const auto recompute = [](const std::string& words) {
    return parse(kMinimalRun, {"model.recompute=" + words}).model.recompute;
  };
  EXPECT_THAT(recompute("[vision/2, backbone.mlp/16]"),
              ElementsAre(ModuleRecompute{"vision", RecomputePlan::kFull, 2},
                          ModuleRecompute{"backbone", RecomputePlan::kSelective, 16}));
  EXPECT_THAT(recompute("[vision.attn/2, backbone.attn]"),
              ElementsAre(ModuleRecompute{"vision", RecomputePlan::kAttention, 2},
                          ModuleRecompute{"backbone", RecomputePlan::kAttention}));
  for (const char* word : {"backbone/1", "backbone/-2", "backbone/2x", "backbone/", "backbone/2000",
                           "backbone/2.mlp", "backbone.mlp.attn", "projector.attn", "head/2", "/2"})
    EXPECT_THAT([&] { (void)recompute(str("[", word, "]")); },
                ThrowsMessage<Error>(HasSubstr("with /n behind it, n from 2 to 1024")))
        << word;
}

TEST(ReadRunConfig, AcceptsBfloat16OnCuda) {
  EXPECT_EQ(parse(kMinimalRun, {"model.dtype=bfloat16", "run.device=cuda:1"}).model.dtype,
            Dtype::kBfloat16);
}

TEST(ReadRunConfig, RefusesOverridesThatNameNothing) {
  EXPECT_THAT(refusal_of(kMinimalRun, {"run.steps"}),
              AllOf(HasSubstr("override is not key.path=value"), HasSubstr("\"run.steps\"")));
  EXPECT_THAT(refusal_of(kMinimalRun, {"data.sources.1.weight=1"}),
              AllOf(HasSubstr("names no item of the list"), HasSubstr("expected: 0 to 0")));
  EXPECT_THAT(refusal_of(kMinimalRun, {"model.path.x=1"}),
              HasSubstr("override goes below a value"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"run.steps=ten"}),
              AllOf(HasSubstr("command line run.steps"), HasSubstr("found: ten")));
}

TEST(ReadRunConfig, NamesAFileThatCannotBeRead) {
  const TemporaryFolder folder;
  const auto refusal = [](const std::string& path) {
    return input_error_of([&] { (void)read_run_config(path); });
  };
  EXPECT_THAT(refusal("/nowhere/run.yaml"),
              HasSubstr("file cannot be read; where: /nowhere/run.yaml; found: No such file"));
  EXPECT_THAT(refusal(folder.path("")), HasSubstr("found: a directory; expected: a YAML file"));
  folder.write("large.yaml", "");
  std::filesystem::resize_file(folder.path("large.yaml"), std::uintmax_t{1} << 40);  // a sparse one
  EXPECT_THAT(refusal(folder.path("large.yaml")),
              AllOf(HasSubstr("larger than the limit"), HasSubstr("at most 1048576 bytes")));
}

}  // namespace
}  // namespace tributary::config
