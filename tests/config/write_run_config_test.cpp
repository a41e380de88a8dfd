#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <random>

#include "config/run/read_run_config.h"
#include "config/run/run_keys.h"
#include "core/error.h"
#include "tests/config/minimal_run.h"

namespace tributary::config {
namespace {

using ::testing::HasSubstr;

TEST(DescribeChanges, NamesEachKeyThatHasAnotherValue) {
  const RunConfig before = parse(kMinimalRun);
  EXPECT_EQ(describe_changes(before, before), "");
  const RunConfig now = parse(kMinimalRun, {"run.steps=7", "optimizer.learning_rate=0.25",
                                            "data.sources.0.weight=3", "model.freeze=[vision]"});
  const std::string changes = describe_changes(before, now);
  EXPECT_THAT(changes, HasSubstr("run.steps 7 (was "));
  EXPECT_THAT(changes, HasSubstr("optimizer.learning_rate 0.25 (was "));
  EXPECT_THAT(changes, HasSubstr("data.sources.0.weight 3"));
  EXPECT_THAT(changes, HasSubstr("model.freeze "));
  EXPECT_EQ(std::count(changes.begin(), changes.end(), '('), 4) << changes;
  RunConfig more = before;
  more.data.sources.push_back({.name = "second"});
  EXPECT_EQ(describe_changes(before, more), "data.sources 2 items (was 1)");
}

/// Leaves out what does not go together with the objective.
void fit_objective(RunConfig& config) {
  ObjectiveSection& objective = config.objective;
  if (!objective.compares_pairs()) {
    objective = {};
    return;
  }
  if (objective.loss == PairLoss::kIpo) objective.label_smoothing = 0;
  if (config.data.too_long == TooLong::kTruncate) config.data.too_long = TooLong::kRefuse;
  config.validation.metrics.clear();
  config.validation.blind = false;
  config.validation.max_new_tokens = 0;
  config.batch.costs.clear();
  for (ModuleSection& module : config.parallel.modules)
    if (module.placement == Placement::kFlow) module = {.module = module.module};
}

/// Leaves out what encoders beside the run cannot do: with others apart, or where one trains.
void fit_pool(RunConfig& config) {
  const bool any_apart =
      std::ranges::any_of(config.parallel.modules, [](const ModuleSection& module) {
        return module.placement != Placement::kFlow && module.placement != Placement::kInline;
      });
  const bool any_trains =
      !config.model.has_adapters() &&
      std::ranges::any_of(config.parallel.modules, [&](const ModuleSection& module) {
        return module.placement == Placement::kFlow &&
               std::ranges::count(config.model.freeze, module.module) == 0;
      });
  PoolSection& pool = config.pool;
  pool.min_encoders = std::min(pool.min_encoders, pool.encoders);
  pool.max_encoders = std::max(pool.max_encoders, pool.encoders);
  if (any_trains) {
    pool.min_encoders = pool.max_encoders = 0;
    pool.engines = {"memfd"};
  }
  if (any_apart || any_trains || !config.parallel.has_encoders_beside())
    pool.order = PoolOrder::kData;
  if (pool.order == PoolOrder::kData) {
    pool.replay.clear();
    return;
  }
  config.batch.packing = Packing::kOnlineBestFit;
  config.batch.microbatches = 0;
}

/// Random values of every key, within its range and the rules between keys.
RunConfig random_config(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t count) { return random() % count; };
  const std::vector<std::string> texts{
      "plain", "",    "true",     "123",  "a: b", "# no", "é\n\t\"\\", "null", "~",     "  x ",
      "-",     "[a]", "\x01\x7f", "日本", "%",    "1e5",  "\xC2\x85",  "'",    "a\\x41"};
  RunConfig config;
  config.data.sources.resize(1 + below(4));
  config.optimizer.groups.resize(below(3));
  const auto value_of = [&](const Key& key) -> KeyValue {
    const double span = std::min(key.range.max, 1e9) - key.range.min;
    const double part = 0.001 + 0.99 * static_cast<double>(below(1 << 30)) / (1 << 30);
    switch (key.type) {
      case KeyType::kFlag:
        return below(2) == 1;
      case KeyType::kWhole:
        return static_cast<std::int64_t>(key.range.min + part * span + 0.5);
      case KeyType::kDegree:
        return static_cast<std::int64_t>(1 + below(64));
      case KeyType::kNumber:
        return key.range.min + span * (below(2) == 1 ? part : part * 1e-9);
      case KeyType::kText:
        return key.choices.empty() ? texts[below(texts.size())]
                                   : key.choices[below(key.choices.size())];
      case KeyType::kRanks:
        return std::vector<std::string>{"", "3", "0-2,7"}[below(3)];
      case KeyType::kTexts:
        if (key.choices.empty())
          return std::vector<std::string>(below(3), texts[below(texts.size())]);
        return std::vector<std::string>{key.choices[below(key.choices.size())]};
    }
    return false;
  };
  for (const Key& key : all_keys()) {
    const std::size_t bracket = key.path.find("[]");
    const std::size_t items =
        bracket == std::string::npos ? 1 : find_key_list(key.path.substr(0, bracket))->size(config);
    for (std::size_t item = 0; item < items; ++item) key.set(config, item, value_of(key));
  }
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    config.data.sources[i].name = "source-" + std::to_string(i);
    config.data.sources[i].path = std::to_string(i) + ".jsonl";
  }
  for (std::size_t i = 0; i < config.optimizer.groups.size(); ++i) {
    config.optimizer.groups[i].match = std::to_string(i) + texts[below(texts.size())];
    config.optimizer.groups[i].weight_decay = below(2) == 1 ? -1.0 : 0.25;
  }
  if (below(2) == 1) config.parallel.cp = {0};  // auto
  for (ModuleSection& module : config.parallel.modules) {
    if (module.placement == Placement::kInline) {
      module = {.module = module.module};
    } else if (module.placement == Placement::kFlow) {
      module = {.module = module.module,
                .placement = module.placement,
                .dp_replicate = module.dp_replicate};
    } else if (module.placement == Placement::kColocated) {
      module.ranks.clear();
      module.pp = 1;
    } else {
      module.passes = 1;
      module.features = FeatureMemory::kDevice;
      module.stages = BesideStages::kAll;
      module.turns = false;
    }
    module.ahead = module.ahead && module.placement == Placement::kColocated && !module.turns &&
                   std::ranges::count(config.model.freeze, module.module) > 0 &&
                   !config.objective.compares_pairs();
    if (module.placement != Placement::kInline) config.parallel.vision_stages = 0;
    if (below(2) == 1) module.dp_shard = {0};
  }
  ModuleRecompute& recompute = config.model.recompute.front();
  if (!recompute.module.ends_with("projector"))
    recompute.every = 1 + static_cast<std::int64_t>(below(9));
  if (recompute.module == config.model.offload.front()) config.model.offload.clear();
  config.batch.microbatches = 0;
  if (config.batch.packing == Packing::kLevel) {
    config.batch.microbatches = 7;
    if (config.batch.balance == Balance::kNone) config.batch.balance = Balance::kLpt;
  }
  config.batch.correct_costs = false;  // only on a CPU
  if (below(2) == 1) config.model.adapter = {};
  if (config.model.adapter.kind == AdapterKind::kNone) config.model.adapter = {};
  if (config.model.has_adapters()) {
    config.model.adapter.targets = {"q_proj"};
    config.batch.costs.clear();
    config.optimizer.kind = OptimizerKind::kAdamW8bit;
  }
  if (config.optimizer.kind != OptimizerKind::kMuon) config.optimizer.momentum = 0.95;
  config.validation.every = 9;
  config.validation.stop_after = below(2);
  if (config.validation.stop_after == 0) config.validation.min_gain = 0;
  config.parallel.heartbeat_seconds = config.parallel.lost_after_seconds / 2;
  config.run.name = "name";
  config.run.device = below(2) == 1 ? "cuda:3" : "cuda";
  for (std::size_t i = 0; i < config.run.stages.size(); ++i)
    config.run.stages[i].name = str("stage-", i);
  config.model.path = "model";
  config.model.checkpoint = config.model.weights == Weights::kCheckpoint ? "runs/before" : "";
  config.run.steps = 1'000'000'000'000;
  config.drill.step = config.run.steps;
  config.schedule.warmup_steps = 3;
  config.schedule.decay_steps = config.schedule.decay == Decay::kWarmupStableDecay ? 5 : 0;
  if (config.schedule.decay == Decay::kConstant) config.schedule.final_ratio = 0;
  config.data.held_out_fraction = 0.125;
  config.data.min_pixels = std::min(config.data.min_pixels, config.data.max_pixels);
  config.data.max_tokens = std::min(config.data.max_tokens, config.batch.capacity_tokens.count);
  fit_objective(config);
  fit_pool(config);
  return config;
}

TEST(WriteRunConfig, ReadsBackToTheSameStruct) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    std::mt19937_64 random(seed);
    const RunConfig config = random_config(random);
    const std::string text = write_run_config(config);
    ASSERT_EQ(parse(text), config) << text;
    ASSERT_EQ(write_run_config(parse(text)), text);
  }
}

TEST(WriteRunConfig, WritesEveryKey) {
  const std::string text = write_run_config(
      parse(kMinimalRun, {"optimizer.groups=[{match: a}]", "run.stages=[{name: align}]"}));
  for (const Key& key : all_keys())
    EXPECT_THAT(text, HasSubstr(key.path.substr(key.path.rfind('.') + 1) + ": ")) << key.path;
}

TEST(ReadRunConfig, AcceptsOrRefusesDamagedFilesWithoutHarm) {
  RunConfig config = parse(kMinimalRun, {"optimizer.groups=[{match: a}]"});
  const std::string valid = write_run_config(config);
  int refused = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = valid;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char byte =
          "{}[]:-#&*!|>'\"%@`,?\n\t \0\xff"
          "0a"[random() % 27];
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 8);
      } else if (random() % 2 == 0) {
        text.insert(at, 1, byte);
      } else {
        text[at] = byte;
      }
    }
    try {
      (void)parse(text);
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::kInput) << error.what() << "\n" << text;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(DescribeKeys, EqualsTheDocument) {
  const std::string path = std::string(TRIB_SOURCE_DIR) + "/docs/configuration.md";
  std::ifstream file(path);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(document, describe_keys()) << "fix: tributary config --keys > docs/configuration.md";
}

TEST(DescribeKeys, GivesEveryKeyALine) {
  const std::string text = describe_keys();
  for (const Key& key : all_keys()) {
    EXPECT_THAT(text, HasSubstr("| `" + key.path.substr(key.path.rfind('.') + 1) + "` | "));
    const std::string start = key.meaning.substr(0, key.meaning.find('|'));  // bars are escaped
    EXPECT_THAT(text, HasSubstr(start));
  }
  EXPECT_THAT(text, HasSubstr("| `learning_rate` | number | – | `0.001` |"));
}

}  // namespace
}  // namespace tributary::config
