#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/minimal_run.h"

namespace tributary::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadRunConfig, ShortNamesAreNotNearToKeysOfOtherSections) {
  EXPECT_THAT(refusal_of(kMinimalRun + "rnu: 1\n"), HasSubstr("did you mean run?"));
  for (const std::string key : {"optimizer.lx", "model.di", "schedule.step"}) {
    const std::string refusal = refusal_of(kMinimalRun, {key + "=1"});
    EXPECT_THAT(refusal, HasSubstr("unknown key"));
    EXPECT_THAT(refusal, ::testing::Not(HasSubstr("did you mean run.")));
  }
}

TEST(ReadRunConfig, SuggestsNoKeyOfAnotherSectionForAShortName) {
  for (const std::string key : {"batch.name", "optimizer.path", "model.steps", "run.every"}) {
    const std::string refusal = refusal_of(kMinimalRun, {key + "=1"});
    EXPECT_THAT(refusal, HasSubstr("the keys here are "));
    EXPECT_THAT(refusal, ::testing::Not(HasSubstr("did you mean")));
  }
  EXPECT_THAT(refusal_of(kMinimalRun + "steps: 5\n"), HasSubstr("did you mean run.steps?"));
  EXPECT_THAT(refusal_of(kMinimalRun, {"checkpoint.often=5"}),
              HasSubstr("fix: the keys here are every keep_latest keep_best async"));
}

TEST(ReadRunConfig, ListsValuesThatAShortenedRunNeverComesTo) {
  const std::string text = kMinimalRun + "schedule: {warmup_steps: 20}\n";
  EXPECT_THAT(list_idle_values(parse(text)), testing::IsEmpty());
  EXPECT_THAT(list_idle_values(parse(text, {"run.steps=20", "data.sources.0.start_step=19"})),
              testing::IsEmpty());
  EXPECT_THAT(list_idle_values(parse(text, {"run.steps=3", "data.sources.0.start_step=3"})),
              ElementsAre(HasSubstr("never joins the mixture: start_step 3, run.steps 3"),
                          HasSubstr("schedule.warmup_steps 20, run.steps 3")));
  const std::vector<std::string> stable{"schedule.decay=warmup_stable_decay",
                                        "schedule.decay_steps=30", "run.steps=40"};
  EXPECT_THAT(list_idle_values(parse(text, stable)),
              ElementsAre(HasSubstr("warmup_steps 20 + decay_steps 30, run.steps 40")));
}

TEST(ReadRunConfig, ZeroIsAtTheEndAloneForCheckpointsToo) {
  EXPECT_EQ(parse(kMinimalRun, {"checkpoint.every=0"}).checkpoint.every, 0);
}

TEST(ReadRunConfig, PutsTheHomeDirectoryInPlaceOfATilde) {
  ASSERT_EQ(setenv("HOME", "/home/ann", 1), 0);
  const RunConfig config =
      parse(kMinimalRun, {"run.dir=~/runs/a", "model.path=~/m", "data.sources.0.path=~/a.jsonl",
                          "data.sources.0.images=b/~/c", "data.sources.0.held_out=~/b.jsonl"});
  EXPECT_EQ(config.run.dir, "/home/ann/runs/a");
  EXPECT_EQ(config.model.path, "/home/ann/m");
  EXPECT_EQ(config.data.sources[0].path, "/home/ann/a.jsonl");
  EXPECT_EQ(config.data.sources[0].images, "b/~/c");
  EXPECT_EQ(config.data.sources[0].held_out, "/home/ann/b.jsonl");
  EXPECT_THAT(refusal_of(kMinimalRun, {"run.dir=~bob/runs"}),
              AllOf(HasSubstr("path begins with ~ and cannot be expanded"),
                    HasSubstr("command line run.dir"), HasSubstr("\"~bob/runs\"")));
  ASSERT_EQ(unsetenv("HOME"), 0);
  EXPECT_THAT(refusal_of(kMinimalRun, {"run.dir=~/runs"}), HasSubstr("expected: HOME in the"));
}

TEST(ReadRunConfig, KnowsADataSetInItsPlace) {
  EXPECT_THAT([] { (void)read_run_config("mine.jsonl"); },
              testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("config: a data set in place of a configuration"),
                        HasSubstr("set data.sources.0.path=mine.jsonl"))));
  EXPECT_THAT(refusal_of("{\"a\": 1}\n{\"a\": 2}\n"), HasSubstr("JSON lines are data"));
}

TEST(ReadRunConfig, AnswersNamesOfOtherTrainers) {
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"optimizer.lr", "fix: write optimizer.learning_rate"},
      {"optimizer.name", "adamw, muon or adamw_8bit"},
      {"optimizer.betas", "write optimizer.beta1 and optimizer.beta2"},
      {"base_model", "write model.path"},
      {"checkpoint.interval", "write checkpoint.every"},
      {"vit_lr", "write optimizer.groups"},
      {"num_train_epochs", "run.epochs, in place of run.steps"},
      {"model.lora_alpha", "adapter.alpha"},
      {"data.truncation", "data.too_long: drop, truncate or refuse"},
      {"data.template", "the tokenizer says which chat is written"},
      {"run.num_epochs", "run.epochs, in place of run.steps"},
      {"cutoff_len", "data.max_tokens"},
      {"warmup_ratio", "schedule.warmup_steps"},
      {"output_dir", "fix: write run.dir"},
      {"gradient_accumulation_steps", "batch.global_samples"},
      {"batch.global_batch_size", "batch.global_samples"},
      {"torch_dtype", "model.dtype"},
      {"per_device_train_batch_size", "batch.capacity_tokens"},
      {"model.lora", "adapter.kind: lora or dora"}};
  for (const auto& [key, advice] : answers)
    EXPECT_THAT(refusal_of(kMinimalRun, {key + "=1"}),
                AllOf(HasSubstr("unknown key"), HasSubstr(advice)));
}

TEST(ReadRunConfig, KnowsTheFormerNameOfAKey) {
  EXPECT_EQ(parse(kMinimalRun + "stability: {most_skips: 7}\n").stability.max_skips, 7);
  EXPECT_EQ(parse(kMinimalRun + "stability: {most_skips: 7}\n", {"stability.max_skips=9"})
                .stability.max_skips,
            9);
}

TEST(ReadRunConfig, SaysHowListItemsAreNamed) {
  EXPECT_THAT(refusal_of(kMinimalRun, {"data.sources[0].path=a.jsonl"}),
              HasSubstr("list items go by number: data.sources.0"));
}

TEST(ReadRunConfig, SaysThatATabIsNoIndentation) {
  EXPECT_THAT(refusal_of(kMinimalRun + "run:\n\tsteps: 5\n"),
              AllOf(HasSubstr("not valid YAML"), HasSubstr("write spaces in place of tabs")));
}

}  // namespace
}  // namespace tributary::config
