#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include <ATen/ATen.h>

#include "config/plan/plan_of_run.h"
#include "data/record/record.h"
#include "schedule/pipeline/plan_pipeline.h"
#include "tests/data/temporary_folder.h"
#include "tests/mesh/thread_ranks.h"
#include "tests/train/equality/trainee.h"
#include "train/checkpoint/watched_files.h"
#include "train/loop.h"
#include "train/snapshot.h"
#include "train/start/ranks.h"

namespace tributary::train {
namespace {

/// Letters are tokens; a record that begins with "quiet" has no target among them.
class QuietEncoder final : public data::SampleEncoder {
 public:
  Result<SampleShape> describe(const data::Record& record) const override {
    return encode(record).value().shape();
  }
  Result<data::EncodedSample> encode(const data::Record& record) const override {
    const std::string text = std::get<std::string>(record.turns.front().parts.front());
    data::EncodedSample sample;
    for (const char letter : text) {
      sample.tokens.push_back(letter % 61);
      sample.targets.push_back(text.starts_with("quiet") ? data::kIgnoredTarget : letter % 59);
    }
    return sample;
  }
  Result<data::HeldOutSample> encode_held_out(const data::Record& record) const override {
    return Refusal{"none", record.key};
  }
};

std::string line_of(const std::string& text) {
  return R"({"messages":[{"role":"user","content":")" + text +
         R"("},{"role":"assistant","content":"x"}]})"
         "\n";
}

/// What is left of a run.
struct Outcome {
  TrainState state;
  std::string console;
  std::vector<at::Tensor> parameters;
};

/// Runs of one sample a step; two of eight samples have no target.
class BatchWithoutTargets : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (const char* text :
         {"one", "quiet two", "three", "four", "quiet five", "six", "seven", "8"})
      lines += line_of(text);
    folder_.write("lines.jsonl", lines);
  }

  config::RunConfig config(const std::string& name, std::int64_t steps) const {
    config::RunConfig config;
    config.run.dir = folder_.at(name);
    config.run.steps = steps;
    config.model.path = folder_.at("model");
    config.data.sources = {{.name = "lines", .path = folder_.at("lines.jsonl")}};
    config.batch.global_samples = 1;
    config.batch.balance = config::Balance::kNone;
    config.schedule.decay = config::Decay::kConstant;
    config.stability.on_non_finite = config::OnNonFinite::kStop;
    config.metrics.tensorboard = false;
    return config;
  }

  /// Trains, from a checkpoint where one is named.
  Outcome train_on(const mesh::World& world, const config::RunConfig& config,
                   const std::string& checkpoint = "") {
    Meshes meshes;
    Session session;
    session.config = config;
    session.model_config = tiny_model_config(/*sees=*/false);
    session.plan = plan_of_run(config, world.size(), session.model_config);
    if (world.size() > 1) meshes = open_meshes(session.plan, world, kKvHeads);
    const mesh::Mesh& mesh = meshes.backbone;
    session.mesh = &mesh;
    session.sources = {"lines"};
    session.tokenizer = std::make_unique<data::Tokenizer>(
        data::Tokenizer::load(std::string(TRIB_SOURCE_DIR) + "/configs/demo_model/tokenizer.json"));
    const schedule::Pipeline pipeline = schedule::pipeline_of(session.plan);
    const model::ModelLayout layouts = lay_out(config, session.plan, pipeline, meshes);
    session.lanes =
        lanes_of_run(session.plan, pipeline, meshes, config::front_modules(session.model_config));
    session.router =
        std::make_unique<SampleRouter>(session.lanes, meshes, config.batch.global_samples);
    SampleRouter& router = *session.router;
    data::Pass pass;
    if (router.passes())
      pass = [&](std::int64_t first, const auto& write) { return router.pass_on(first, write); };
    session.loader = std::make_unique<data::Loader>(
        data::LoaderOptions{.data = config.data,
                            .seed = 0,
                            .batch_samples = config.batch.global_samples,
                            .quarantine_path = "",
                            .part = mesh.data_index(),
                            .parts = mesh.data_ranks(),
                            .reader = router.reader(),
                            .readers = router.readers(),
                            .pass = pass},
        encoder_);
    session.held_out = std::make_unique<data::HeldOut>(config.data, encoder_);
    session.model = build_model(config, session.model_config, layouts, at::kCPU);
    session.optimizer = make_optimizer(config.optimizer, session.model->units());
    const RunDirectory run{config.run.dir};
    TrainState state;
    if (!checkpoint.empty()) state = restore_snapshot(session, checkpoint);
    WatchedFiles files(real_file_system(), [] {});
    CheckpointWriter checkpoints({.root = run.checkpoints(),
                                  .async = false,
                                  .start_step = state.step,
                                  .ranks = &mesh.all_ranks().saving()},
                                 files);
    std::ostringstream out;
    Loop loop(session, run, checkpoints, files, state, /*peak_flops=*/1e6, out);
    EXPECT_EQ(loop.run(*stop_), Loop::End::kDone);
    Outcome outcome{.state = loop.state(), .console = out.str(), .parameters = {}};
    for (const auto& unit : session.model->units())
      outcome.parameters.push_back(unit->shard_value().clone());
    return outcome;
  }

  std::vector<Json> lines_of(const std::string& run, const std::string& file) const {
    return last_lines(folder_.at(run + "/" + file), 100);
  }

  data::TemporaryFolder folder_;
  QuietEncoder encoder_;
  std::unique_ptr<StopRequest> stop_ = std::make_unique<StopRequest>(std::chrono::seconds(60));
};

TEST_F(BatchWithoutTargets, IsLeftOutOnTheRecordAndTheRunGoesOn) {
  const mesh::World one;
  const Outcome outcome = train_on(one, config("straight", 8));
  EXPECT_EQ(outcome.state.step, 8);
  EXPECT_EQ(outcome.state.loader.next_index, 8) << "the data cursor moves on";
  EXPECT_EQ(outcome.state.optimizer_steps, 6);
  EXPECT_EQ(outcome.state.skipped_steps, 2);
  EXPECT_THAT(outcome.console, testing::HasSubstr("SKIPPED: no target token in the batch"));
  const std::vector<Json> skipped = lines_of("straight", "skipped.jsonl");
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_EQ(skipped[0]["reason"], "no target token in the batch");
  ASSERT_EQ(skipped[0]["samples"].size(), 1u);
  EXPECT_THAT(
      skipped[0]["samples"][0].get<std::string>(),
      testing::AnyOf(testing::EndsWith("lines.jsonl:2"), testing::EndsWith("lines.jsonl:5")));
  int without = 0;
  for (const Json& line : lines_of("straight", "metrics.jsonl")) {
    const bool is_quiet = line["target_tokens"] == 0;
    without += is_quiet ? 1 : 0;
    EXPECT_EQ(line["skipped"], is_quiet);
    EXPECT_EQ(line["loss"].is_null(), is_quiet);
    EXPECT_EQ(line["mfu"] == 0, is_quiet);
  }
  EXPECT_EQ(without, 2);
}

TEST_F(BatchWithoutTargets, IsLeftOutAlikeAfterAResume) {
  const mesh::World one;
  const Outcome straight = train_on(one, config("straight", 8));
  for (const std::int64_t stop : {1, 2, 3, 4, 5, 6, 7}) {
    const std::string name = str("cut-", stop);
    (void)train_on(one, config(name, stop));
    const Outcome resumed =
        train_on(one, config(name, 8), folder_.at(str(name, "/checkpoints/step-", stop)));
    EXPECT_EQ(resumed.state.skipped_steps, 2);
    EXPECT_EQ(resumed.state.optimizer_steps, 6);
    for (std::size_t i = 0; i < straight.parameters.size(); ++i)
      EXPECT_TRUE(at::equal(resumed.parameters[i], straight.parameters[i])) << name;
  }
}

TEST_F(BatchWithoutTargets, IsLeftOutByAllRanks) {
  const mesh::World one;
  (void)train_on(one, config("straight", 8));
  const std::vector<Json> expected = lines_of("straight", "metrics.jsonl");
  for (const config::MeshShape& shape :
       {config::MeshShape{.tp = 2}, config::MeshShape{.pp = 2}, config::MeshShape{.dp_shard = 2}}) {
    const std::string name = config::describe(shape);
    config::RunConfig run = config(name, 8);
    run.parallel.pp = {shape.pp};
    run.parallel.dp_replicate = {shape.dp_replicate};
    run.parallel.dp_shard = {shape.dp_shard};
    run.parallel.tp = {shape.tp};
    mesh::run_worlds(2, [&](const mesh::World& world) {
      const Outcome outcome = train_on(world, run);
      EXPECT_EQ(outcome.state.skipped_steps, 2) << name;
    });
    const std::vector<Json> lines = lines_of(name, "metrics.jsonl");
    ASSERT_EQ(lines.size(), expected.size()) << name;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i]["skipped"], expected[i]["skipped"]) << name;
      if (lines[i]["skipped"]) continue;
      EXPECT_NEAR(lines[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-4) << name;
    }
  }
}

}  // namespace
}  // namespace tributary::train
