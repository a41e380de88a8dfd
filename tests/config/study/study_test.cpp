#include "config/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/artifact/module_graph.h"
#include "core/error.h"
#include "tests/config/replaced.h"
#include "tests/core/input_error.h"

namespace tributary::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kWhere = std::string(TRIB_SOURCE_DIR) + "/configs/studies/in_memory.yaml";

const std::string kPipeline = R"(
format: tributary.study/1
name: "a study"
source: "a paper"
against: dflop
methods: [dflop, flowtrain]
models:
  llama: {model_type: llama, hidden_size: 64, num_attention_heads: 4, num_hidden_layers: 2,
          intermediate_size: 128, vocab_size: 1000}
defaults: {cluster: ../clusters/a100_8.yaml, model: llama, global_samples: 16, devices: 8}
settings:
  - {name: "one"}
  - name: "two"
    devices: 16
    frozen: [backbone]
    recompute: selective
    memory_bytes: 1000000
    run_samples: 500
    capacity_tokens: 4096
    tp: 4
    pp: 2
    data:
      max_tokens: 900
      classes:
        - {weight: 2, items: {uniform: [1, 4]}, patches: 100, patches_per_token: 4, text: {log_normal: [50, 0.5]}}
        - {items: {exponential: [2, 2.2]}, patches: {log_uniform: [10, 20]}}
figures:
  - {where: "table 1", setting: "one", method: dflop, against: flowtrain, value: 1.5}
  - {quantity: hours, setting: "two", method: dflop, value: [2, 3], digits: 1}
orders:
  - {setting: "one", methods: [dflop, flowtrain]}
  - {method: dflop, settings: ["two", "one"]}
  - {method: dflop, against: flowtrain, settings: ["two", "one"]}
  - {setting: "two", speedups: [[dflop, flowtrain], [flowtrain, dflop]]}
)";

const char* const kSharing = R"(
format: tributary.study/1
name: "sharing"
kind: sharing
models:
  tri:
    modules:
      - {name: vision, layers: 2, width: 128, tokens: 64}
      - {name: text, layers: 1, width: 64, heads: 2, vocab: 100, tokens: 32}
      - {name: head, layers: 1, width: 64, tokens: 8, after: [vision, text]}
settings:
  - {name: "four", model: tri, cluster: ../clusters/h100_8.yaml, devices: 4, global_samples: 8, share_units: 5}
)";

std::string message_of(const std::string& text, const std::string& from, const std::string& to) {
  return input_error_of([&] { (void)parse_study(replaced(text, from, to), kWhere); }, "read");
}

TEST(Study, ReadsSettingsOverDefaults) {
  const Study study = parse_study(kPipeline, kWhere);
  EXPECT_EQ(study.kind, StudyKind::kPipeline);
  EXPECT_THAT(study.methods, ElementsAre("dflop", "flowtrain"));
  ASSERT_EQ(study.settings.size(), 2U);
  const StudySetting& one = study.settings[0];
  EXPECT_EQ(one.devices, 8);
  EXPECT_EQ(one.model.name, "llama");
  EXPECT_EQ(one.cluster.device.name, "A100-80 SXM");
  EXPECT_FALSE(one.recompute.has_value());
  EXPECT_FALSE(one.memory.has_value());
  EXPECT_TRUE(one.data.classes.empty());
  const StudySetting& two = study.settings[1];
  EXPECT_EQ(two.tp, 4);
  EXPECT_EQ(two.pp, 2);
  EXPECT_EQ(two.devices, 16);
  EXPECT_EQ(two.recompute, RecomputePlan::kSelective);
  EXPECT_EQ(two.memory, Bytes{1'000'000});
  EXPECT_THAT(two.frozen, ElementsAre("backbone"));
  EXPECT_EQ(two.data.max_tokens, 900);
  ASSERT_EQ(two.data.classes.size(), 2U);
  EXPECT_EQ(two.data.classes[0].items, (Draw{DrawKind::kUniform, 1, 4}));
  EXPECT_EQ(two.data.classes[0].patches, (Draw{DrawKind::kConstant, 100, 0}));
  EXPECT_EQ(two.data.classes[1].weight, 1);
  EXPECT_EQ(two.data.classes[1].text, Draw{});
  ASSERT_EQ(study.orders.size(), 4U);
  EXPECT_EQ(study.orders[0].by, RankedBy::kStep);
  EXPECT_THAT(study.orders[0].ranked,
              ElementsAre(RankedMethod{"one", "dflop", ""}, RankedMethod{"one", "flowtrain", ""}));
  EXPECT_EQ(study.orders[1].by, RankedBy::kMfu);
  EXPECT_THAT(study.orders[1].ranked,
              ElementsAre(RankedMethod{"two", "dflop", ""}, RankedMethod{"one", "dflop", ""}));
  EXPECT_EQ(study.orders[2].by, RankedBy::kSpeedup);
  EXPECT_THAT(study.orders[2].ranked, ElementsAre(RankedMethod{"two", "dflop", "flowtrain"},
                                                  RankedMethod{"one", "dflop", "flowtrain"}));
  EXPECT_EQ(study.orders[3].by, RankedBy::kSpeedup);
  EXPECT_THAT(study.orders[3].ranked, ElementsAre(RankedMethod{"two", "dflop", "flowtrain"},
                                                  RankedMethod{"two", "flowtrain", "dflop"}));
  EXPECT_EQ(study.figures[0].min, 1.5);
  EXPECT_EQ(study.figures[1].max, 3);
  EXPECT_EQ(study.figures[1].quantity, FigureQuantity::kHours);
  EXPECT_EQ(study.figures[1].digits, 1);
  EXPECT_FALSE(study.figures[0].digits.has_value());
}

TEST(Study, ReadsHowASettingRuns) {
  const std::string given = "run: {config: ../demo.yaml, values: [\"run.threads=1\"], steps: 9}";
  std::string text = kPipeline;
  text.replace(text.find("run_samples: 500"), 16, given);
  const Study study = parse_study(text, kWhere);
  EXPECT_FALSE(study.settings[0].run.has_value());
  EXPECT_EQ(study.settings[1].run,
            (StudyRun{.config = std::string(TRIB_SOURCE_DIR) + "/configs/demo.yaml",
                      .values = {"run.threads=1"},
                      .steps = 9,
                      .warm_up_steps = 2}));
  const auto message = [&](const std::string& from, const std::string& to) {
    return message_of(text, from, to);
  };
  EXPECT_THAT(message("../demo.yaml", "demo.yaml"),
              AllOf(HasSubstr("settings.1.run.config; found: \"demo.yaml\""),
                    HasSubstr("a run configuration at ")));
  EXPECT_THAT(message("run.threads=1", "run.threads"), HasSubstr("texts key.path=value"));
  EXPECT_THAT(message("steps: 9", "steps: 2"), HasSubstr("fewer than `steps`"));
  EXPECT_THAT(message("steps: 9", "step: 9"), HasSubstr("did you mean steps?"));
  EXPECT_THAT(message_of(kSharing, "share_units: 5", given), HasSubstr("settings.0.run; found: "));
}

TEST(Study, ReadsGraphsOfModules) {
  const Study study = parse_study(kSharing, kWhere);
  const StudySetting& setting = study.settings.at(0);
  EXPECT_THAT(setting.module_tokens, ElementsAre(64, 32, 8));
  EXPECT_EQ(setting.share_units, 5);
  EXPECT_EQ(setting.model.modules[0].layers[0].shape.heads, 2);
  EXPECT_EQ(setting.model.modules[1].layers.size(), 3U);  // embedding, blocks, head
  EXPECT_EQ(setting.model.edges.size(), 2U);
}

TEST(Study, ReadsModelsAtAPath) {
  const std::string inline_model = kPipeline.substr(
      kPipeline.find("llama: {"), kPipeline.find("defaults:") - kPipeline.find("llama: {"));
  const auto with_path = [&](const std::string& path) {
    std::string text = kPipeline;
    text.replace(text.find(inline_model), inline_model.size(), "llama: " + path + "\n");
    return text;
  };
  const std::string root = TRIB_SOURCE_DIR;
  for (const std::string& path : {root + "/configs/demo_model", std::string("../demo_model")}) {
    SCOPED_TRACE(path);
    const Study study = parse_study(with_path(path), kWhere);
    EXPECT_EQ(study.settings[0].model.name, "llama");
    EXPECT_EQ(study.settings[0].model.modules.size(),
              read_graph_of_model(root + "/configs/demo_model").modules.size());
  }
  // The reader of module graphs refuses a file that is none.
  EXPECT_THAT(message_of(with_path("synthetic_8b.json"), "a study", "a study"),
              AllOf(HasSubstr("synthetic_8b.json"), Not(HasSubstr("not a JSON object"))));
  EXPECT_THAT(message_of(with_path("nowhere"), "a study", "a study"),
              AllOf(HasSubstr("models.llama; found: \"nowhere\""),
                    HasSubstr("a model directory or module graph at " + root +
                              "/configs/studies/nowhere")));
  EXPECT_THAT(message_of(with_path("17"), "a study", "a study"),
              AllOf(HasSubstr("models.llama; found: 17"), HasSubstr("a path, the keys")));
}

TEST(Study, HoldsNamesOfMethodsAgainstThoseOfTheKind) {
  const StudyMethods methods = [](StudyKind kind) -> std::vector<StudyMethod> {
    if (kind == StudyKind::kSharing) return {{"mosaic"}, {"spindle"}};
    return {{"dflop"}, {"flowtrain"}, {"fsdp"}, {"veomni", false}, {"search", true, "exact"}};
  };
  const auto message = [&](std::vector<std::pair<std::string, std::string>> changes) {
    std::string text = kPipeline;
    for (const auto& [from, to] : changes) text = replaced(text, from, to);
    return input_error_of([&] { (void)parse_study(text, kWhere, methods); }, "read");
  };
  const std::string listed = "methods: [dflop, flowtrain]\n";
  EXPECT_EQ(message({}), "read");
  EXPECT_EQ(message({{listed, ""}}), "read");
  const std::string former = std::string(kPipeline).replace(
      std::string(kPipeline).find(listed), listed.size(), "methods: [dflop, flowtrain, exact]\n");
  EXPECT_THAT(parse_study(former, kWhere, methods).methods,
              ElementsAre("dflop", "flowtrain", "search"));
  // When the list misspells a name, the list is blamed.
  EXPECT_THAT(message({{listed, "methods: [dflpo, flowtrain]\n"}}),
              AllOf(HasSubstr("methods.0; found: dflpo"), HasSubstr("did you mean dflop?"),
                    Not(HasSubstr("against"))));
  for (const std::string& list : {listed, std::string()}) {
    SCOPED_TRACE(list);
    const auto changed = [&](const std::string& from, const std::string& to) {
      return message({{listed, list}, {from, to}});
    };
    EXPECT_THAT(changed("against: dflop\n", "against: dflopp\n"),
                AllOf(HasSubstr(" against; found: dflopp"), HasSubstr("did you mean dflop?")));
    EXPECT_THAT(changed("method: dflop, against: flowtrain", "method: flowtran, against: dflop"),
                AllOf(HasSubstr("figures.0.method; found: flowtran"),
                      HasSubstr("did you mean flowtrain?")));
    EXPECT_THAT(changed("against: flowtrain", "against: nonsense"),
                AllOf(HasSubstr("figures.0.against; found: nonsense"),
                      HasSubstr("a method of kind pipeline: dflop, flowtrain, fsdp, veomni"),
                      Not(HasSubstr("did you mean"))));
    EXPECT_THAT(changed("methods: [dflop, flowtrain]}", "methods: [dflop, mosaic]}"),
                HasSubstr("orders.0.methods.1; found: mosaic"));
    EXPECT_THAT(changed("{method: dflop, settings", "{method: foo, settings"),
                HasSubstr("orders.1.method; found: foo"));
    // The method is known, but does not run.
    EXPECT_THAT(changed("against: flowtrain", "against: veomni"),
                AllOf(HasSubstr("figures.0.against; found: veomni"), HasSubstr("`methods`")));
  }
  EXPECT_THAT(message({{"against: dflop\n", "against: fsdp\n"}}),
              AllOf(HasSubstr(" against; found: fsdp"), HasSubstr("of the study's `methods`")));
}

TEST(Study, NamesTheKeyOfEveryFault) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(kPipeline, from, to);
  };
  EXPECT_THAT(message("tributary.study/1", "tributary.plan/1"),
              HasSubstr("not a study of this version"));
  EXPECT_THAT(
      message("global_samples: 16", "global_sample: 16"),
      AllOf(HasSubstr("settings.0.global_samples"), HasSubstr("did you mean global_samples?")));
  EXPECT_THAT(message("devices: 16", "devices: 0"), HasSubstr("settings.1.devices; found: 0"));
  EXPECT_THAT(message("model: llama,", "model: lama,"),
              HasSubstr("settings.0.model; found: \"lama\""));
  EXPECT_THAT(message("frozen: [backbone]", "frozen: [vision]"), HasSubstr("settings.1.frozen"));
  EXPECT_THAT(message("recompute: selective", "recompute: some"),
              HasSubstr("one of none selective full"));
  EXPECT_THAT(message("{uniform: [1, 4]}", "{uniform: [4, 1]}"),
              HasSubstr("settings.1.data.classes.0.items"));
  EXPECT_THAT(message("{log_uniform: [10, 20]}", "{gauss: [10, 20]}"),
              HasSubstr("settings.1.data.classes.1.patches"));
  EXPECT_THAT(message("value: [2, 3]", "value: [3, 2]"), HasSubstr("figures.1.value"));
  EXPECT_THAT(message("digits: 1", "digits: -1"), HasSubstr("figures.1.digits; found: -1"));
  EXPECT_THAT(message("value: [2, 3], digits: 1", "value: [2, 3.25], digits: 1"),
              AllOf(HasSubstr("figures.1.digits"), HasSubstr("both ends")));
  EXPECT_THAT(message("against: flowtrain, settings", "against: dflop, settings"),
              AllOf(HasSubstr("orders.2.against"), HasSubstr("another method")));
  EXPECT_THAT(message("against: flowtrain, value", "against: dflop, value"),
              AllOf(HasSubstr("figures.0.against"), HasSubstr("another method")));
  EXPECT_THAT(message("value: 1.5", "value: 1.5, digits: 1"),
              AllOf(HasSubstr("figures.0.digits"), HasSubstr("single number")));
  EXPECT_THAT(message("against: flowtrain,", ""), HasSubstr("figures.0.against"));
  EXPECT_THAT(message("setting: \"one\", method: dflop,", "setting: \"three\", method: dflop,"),
              AllOf(HasSubstr("figures.0"), HasSubstr("found: three")));
  EXPECT_THAT(message("methods: [dflop, flowtrain]}", "methods: [dflop, fsdp]}"),
              AllOf(HasSubstr("orders.0"), HasSubstr("found: fsdp")));
  EXPECT_THAT(message("settings: [\"two\", \"one\"]", "settings: [\"two\", \"six\"]"),
              HasSubstr("orders.1.settings.1; found: six"));
  EXPECT_THAT(
      message("setting: \"two\", method: dflop,", "settings: [\"two\", \"six\"], method: dflop,"),
      HasSubstr("figures.1.settings.1; found: six"));
  EXPECT_THAT(
      message("models:\n", "models:\n  llama-3.1: nowhere\n  llama-3.2: nowhere\n"),
      AllOf(HasSubstr("models.\"llama-3.1\"; found: \"nowhere\""),
            HasSubstr("models.\"llama-3.2\"; found: \"nowhere\""), Not(HasSubstr("the same in"))));
  EXPECT_THAT(message("settings: [\"two\", \"one\"]", "settings: [\"two\"]"),
              HasSubstr("orders.1.settings"));
  EXPECT_THAT(message("[dflop, flowtrain], [flowtrain", "[dflop, flowtrain], [fsdp"),
              HasSubstr("orders.3.speedups.1.0; found: fsdp"));
  EXPECT_THAT(message("flowtrain, settings: [\"two\"", "flowtrain, settings: [\"ten\""),
              HasSubstr("orders.2.settings.0; found: ten"));
  EXPECT_THAT(message("{setting: \"two\", speedups", "{setting: \"ten\", speedups"),
              HasSubstr("orders.3.setting; found: ten"));
  for (const char* pairs : {"[[dflop, flowtrain]]", "[[dflop, flowtrain], [dflop]]",
                            "[[dflop, flowtrain], [dflop, flowtrain]]", "[dflop, flowtrain]",
                            "[[dflop, dflop], [flowtrain, dflop]]"})
    EXPECT_THAT(message("[[dflop, flowtrain], [flowtrain, dflop]]", pairs),
                AllOf(HasSubstr("orders.3.speedups"), HasSubstr("each once")));
  EXPECT_THAT(message("{method: dflop, settings", "{method: fsdp, settings"),
              AllOf(HasSubstr("orders.1"), HasSubstr("found: fsdp")));
  EXPECT_THAT(message("methods: [dflop, flowtrain]\n", "methods: [dflop, flowtrain, dflop]\n"),
              AllOf(HasSubstr("methods.2"), HasSubstr("each method once")));
  EXPECT_THAT(message("tp: 4", "share_units: 4"), HasSubstr("settings.1.share_units"));
  EXPECT_THAT(message("name: \"two\"", "name: \"one\""), HasSubstr("a name of its own"));
  EXPECT_THAT(message("../clusters/a100_8.yaml", "../clusters/none.yaml"),
              AllOf(HasSubstr("cannot be read"), HasSubstr("none.yaml")));
  EXPECT_THAT(message("hidden_size: 64", "hidden_size: -1"),
              AllOf(HasSubstr("models.llama"), HasSubstr("hidden_size")));
  const auto sharing = [](const std::string& from, const std::string& to) {
    return message_of(kSharing, from, to);
  };
  EXPECT_THAT(sharing("after: [vision, text]", "after: [audio]"),
              HasSubstr("models.tri.modules.2.after"));
  EXPECT_THAT(sharing("heads: 2", "heads: 5"),
              AllOf(HasSubstr("models.tri.modules.1.heads; found: 5"),
                    HasSubstr("a divisor of the width 64, which 5 is not")));
  EXPECT_THAT(sharing("width: 128", "width: 200"),
              AllOf(HasSubstr("models.tri.modules.0.heads; found: no such key"),
                    HasSubstr("a divisor of the width 200, which 3 is not")));
  EXPECT_EQ(sharing("heads: 2", "heads: 5, head_width: 16"), "read");
  EXPECT_THAT(
      sharing("heads: 2", "heads: 4, kv_heads: 3"),
      AllOf(HasSubstr("models.tri.modules.1.kv_heads; found: 3"), HasSubstr("the 4 heads")));
  EXPECT_THAT(message("num_attention_heads: 4", "num_attention_heads: 5"),
              AllOf(HasSubstr("models.llama num_attention_heads; found: width 64, 5 heads"),
                    HasSubstr("or head_dim")));
  EXPECT_EQ(message("num_attention_heads: 4", "num_attention_heads: 5, head_dim: 16"), "read");
  EXPECT_THAT(message("num_attention_heads: 4", "num_attention_heads: 4, num_key_value_heads: 3"),
              HasSubstr("models.llama num_key_value_heads; found: 4 heads, 3 kv heads"));
  EXPECT_THAT(sharing("name: text", "name: vision"), HasSubstr("models.tri.modules.1.name"));
  EXPECT_THAT(sharing("share_units: 5", "share_units: 101"), HasSubstr("settings.0.share_units"));
  for (const char* other : {"tp: 2", "pp: 2", "ulysses: 2", "ep: 2", "capacity_tokens: 10",
                            "data: reference", "batches: 5", "seed: 9"}) {
    const std::string key = std::string(other).substr(0, std::string_view(other).find(':'));
    EXPECT_THAT(sharing("share_units: 5", other),
                AllOf(HasSubstr("settings.0." + key), HasSubstr("`pipeline` alone has it")));
  }
}

TEST(Study, TakesFiguresAboveZeroAndNamesOnce) {
  const auto message = [](const std::string& from, const std::string& to) {
    return message_of(kPipeline, from, to);
  };
  for (const char* value : {"value: 0", "value: -1.5", "value: [0, 2]", "value: [2, 1]"})
    EXPECT_THAT(message("value: 1.5", value),
                AllOf(HasSubstr("figures.0.value"), HasSubstr("above 0")));
  EXPECT_THAT(message("methods: [dflop, flowtrain]}", "methods: [dflop, flowtrain, dflop]}"),
              AllOf(HasSubstr("orders.0.methods"), HasSubstr("each name once")));
  EXPECT_THAT(message("settings: [\"two\", \"one\"]", "settings: [\"two\", \"one\", \"two\"]"),
              AllOf(HasSubstr("orders.1.settings"), HasSubstr("each name once")));
}

TEST(Study, ReadsOccupancyOfSharingAlone) {
  const std::string asked = std::string(kSharing) + R"(
figures:
  - {quantity: occupancy, setting: "four", method: mosaic, value: 0.5}
  - {quantity: min_occupancy, setting: "four", method: mosaic, against: spindle, value: 2.3}
orders:
  - {setting: "four", methods: [mosaic, spindle], by: occupancy}
  - {setting: "four", methods: [mosaic, spindle], by: step}
)";
  const Study study = parse_study(asked, kWhere);
  EXPECT_EQ(study.figures[0].quantity, FigureQuantity::kOccupancy);
  EXPECT_FALSE(study.figures[0].is_set_against());
  EXPECT_EQ(study.figures[1].quantity, FigureQuantity::kMinOccupancy);
  EXPECT_TRUE(study.figures[1].is_set_against());
  EXPECT_EQ(study.orders[0].by, RankedBy::kOccupancy);
  EXPECT_EQ(study.orders[1].by, RankedBy::kStep);
  EXPECT_THAT(message_of(asked, "by: occupancy", "by: mfu"),
              AllOf(HasSubstr("orders.0.by"), HasSubstr("one of step occupancy")));
  EXPECT_THAT(message_of(asked, "methods: [mosaic, spindle], by: occupancy",
                         "speedups: [[mosaic, spindle], [spindle, mosaic]], by: occupancy"),
              AllOf(HasSubstr("unknown key"), HasSubstr("orders.0.\"by\"")));
  EXPECT_THAT(message_of(kPipeline, "{quantity: hours", "{quantity: occupancy"),
              AllOf(HasSubstr("figures.1.quantity"), HasSubstr("`sharing` alone")));
  EXPECT_THAT(message_of(kPipeline, "methods: [dflop, flowtrain]}",
                         "methods: [dflop, flowtrain], by: occupancy}"),
              AllOf(HasSubstr("orders.0.by"), HasSubstr("`sharing` alone")));
}

TEST(Study, ListsAllFaultsAtOnce) {
  std::string text = kPipeline;
  text.replace(text.find("devices: 16"), 11, "devices: -1");
  text.replace(text.find("memory_bytes: 1000000"), 21, "memory_bytes: many");
  try {
    (void)parse_study(text, kWhere);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("settings.1.devices"), HasSubstr("settings.1.memory_bytes")));
  }
}

}  // namespace
}  // namespace tributary::config
