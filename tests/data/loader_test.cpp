#include "data/loader/loader.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/sha256.h"
#include "data/loader/data_order.h"
#include "data/record/record.h"
#include "tests/data/small_mixture.h"

namespace tributary::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(LoaderTest, ContentAndOrderDoNotDependOnThreads) {
  LoaderOptions one = options(1);
  one.data.prefetch_batches = 0;
  Loader reference(one, encoder_);
  const auto expected = list(reference, 25);
  for (const int workers : {2, 5}) {
    SCOPED_TRACE(workers);
    Loader loader(options(workers), encoder_);
    EXPECT_EQ(list(loader, 25), expected);
    EXPECT_EQ(loader.state(), reference.state());
  }
}

TEST_F(LoaderTest, IdsAscendAndSamplesFollowTheDataOrder) {
  folder_.write("large.jsonl", lines_of("l", 82));
  Loader loader(options(), encoder_);
  const DataOrder order(11, {{.weight = 1, .size = 10}, {.weight = 3, .size = 82}});
  std::vector<std::int64_t> cursors(2);
  for (std::int64_t batch = 0, id = 0; batch < 30; ++batch)
    for (const EncodedSample& sample : loader.next_batch()) {
      EXPECT_EQ(sample.id, id);
      EXPECT_EQ(sample.source, order.source_at(id++));
      const std::int64_t item = order.item_at(sample.source, cursors[sample.source]++);
      EXPECT_THAT(sample.key, testing::EndsWith(str(".jsonl:", item + 1)));
    }
  EXPECT_EQ(loader.state().cursors, cursors);
}

TEST_F(LoaderTest, ContinuesFromARestoredState) {
  Loader first(options(3), encoder_);
  (void)list(first, 7);
  const LoaderState state = loader_state_from_json(to_json(first.state()), "state.json");
  EXPECT_EQ(state, first.state());
  const auto expected = list(first, 12);

  Loader fresh(options(1), encoder_);
  fresh.restore(state);
  EXPECT_EQ(list(fresh, 12), expected);
  EXPECT_EQ(fresh.state(), first.state());
  first.restore(state);  // backwards, over what was read ahead
  EXPECT_EQ(list(first, 12), expected);
}

TEST_F(LoaderTest, LoadsAnySampleOfTheRun) {
  Loader loader(options(), encoder_);
  std::vector<EncodedSample> samples;
  for (int i = 0; i < 20; ++i)
    for (EncodedSample& sample : loader.next_batch()) samples.push_back(std::move(sample));
  for (const std::int64_t id : {0, 3, 77, 158, 159}) {
    const EncodedSample again = loader.load(id);
    EXPECT_EQ(again.id, id);
    EXPECT_EQ(again.key, samples[id].key);
    EXPECT_EQ(again.tokens, samples[id].tokens);
  }
  const std::string ahead = loader.load(163).key;
  EXPECT_EQ(loader.next_batch().at(3).key, ahead);
  EXPECT_THROW((void)loader.load(-1), Error);
}

TEST_F(LoaderTest, AnExceptionOfAWorkerReachesTheCaller) {
  folder_.write("small.jsonl", lines_of("s", 9) + line_of("stop"));
  Loader loader(options(), encoder_);
  EXPECT_THROW(
      {
        for (int i = 0; i < 30; ++i) (void)loader.next_batch();
      },
      std::runtime_error);
}

/// Stands for a disk that never answers: encodes nothing until it is destroyed.
class StuckEncoder final : public SampleEncoder {
 public:
  Result<SampleShape> describe(const Record&) const override { return Refusal{"stuck", ""}; }
  Result<EncodedSample> encode(const Record&) const override {
    end_.wait(false);
    return Refusal{"stuck", ""};
  }
  Result<HeldOutSample> encode_held_out(const Record&) const override {
    return Refusal{"stuck", ""};
  }
  void end() {
    end_ = true;
    end_.notify_all();
  }

 private:
  std::atomic<bool> end_ = false;
};

TEST_F(LoaderTest, ReportsAHangWhenASampleIsNotReadInTime) {
  StuckEncoder stuck;
  LoaderOptions chosen = options();
  chosen.sample_deadline = std::chrono::milliseconds(20);
  Loader loader(chosen, stuck);
  try {
    (void)loader.next_batch();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kHang);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("data: sample was not read in time"),
                                    HasSubstr("sample 0"), HasSubstr("within 20 ms")));
  }
  stuck.end();
}

TEST_F(LoaderTest, RestoresADifferenceOnlyWhenItIsAccepted) {
  Loader first(options(), encoder_);
  (void)list(first, 3);
  const LoaderState state = first.state();
  folder_.write("small.jsonl", lines_of("t", 10));
  LoaderOptions chosen = options();
  chosen.seed = 12;
  Loader second(chosen, encoder_);
  const std::vector<std::string> one{"data.digest"};
  EXPECT_THROW(second.restore(state, one), Error);
  const std::vector<std::string> both{"data.digest", "run.seed"};
  second.restore(state, both);
  EXPECT_EQ(second.state().next_index, state.next_index);
}

TEST_F(LoaderTest, TellsAnotherImageFolderByItsImages) {
  folder_.write("small.jsonl", lines_of("s", 9) +
                                   R"({"messages":[{"role":"user","content":[{"type":"image_url",)"
                                   R"("image_url":{"url":"a.png"}}]},)"
                                   R"({"role":"assistant","content":"x"}]})"
                                   "\n");
  folder_.write("here/a.png", "one picture");
  folder_.write("moved/a.png", "one picture");
  folder_.write("other/a.png", "another picture");
  const auto digest = [&](const char* images) {
    LoaderOptions chosen = options();
    chosen.data.sources[0].images = folder_.at(images);
    return Loader(chosen, encoder_).state().sources;
  };
  EXPECT_EQ(digest("here"), digest("moved"));
  EXPECT_NE(digest("here"), digest("other"));
  EXPECT_EQ(digest("here")[1].images, "") << "no record of it has an image";
}

TEST_F(LoaderTest, ReadsAheadNoFurtherThanAllowed) {
  LoaderOptions chosen = options(4);
  chosen.data.prefetch_batches = 2;
  folder_.write("large.jsonl", lines_of("l", 82));
  Loader loader(chosen, encoder_);
  (void)loader.next_batch();
  for (int waits = 0; waits < 200 && encoder_.encoded < 24; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(encoder_.encoded, 24);  // one batch handed out, two ahead
}

TEST_F(LoaderTest, RefusesAMissingFileOrFolderAtOnce) {
  LoaderOptions chosen = options();
  chosen.data.sources[1].path = folder_.at("none.jsonl");
  EXPECT_THAT(failure(chosen), AllOf(HasSubstr("data: file cannot be opened"), HasSubstr("none")));
  chosen = options();
  chosen.data.sources[0].images = folder_.at("pictures");
  EXPECT_THAT(failure(chosen),
              AllOf(HasSubstr("data: image folder does not exist"), HasSubstr("pictures")));
  chosen.data.sources.clear();
  EXPECT_THAT(failure(chosen), HasSubstr("data: no source is given"));
}

TEST_F(LoaderTest, RefusesAFolderWithoutAnyOfTheImages) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += str(R"({"conversations":[{"from":"human","value":"<image>"},)",
                R"({"from":"gpt","value":"x"}],"image":"pics/)", i, ".png\"}\n");
  folder_.write("small.jsonl", text);
  EXPECT_THAT(failure(options()),
              AllOf(HasSubstr("data: none of the first images exists"),
                    HasSubstr("16 missing, the first is \"pics/0.png\""),
                    HasSubstr("small.jsonl:1"), HasSubstr("set `images` of source small")));
  EXPECT_EQ(encoder_.encoded, 0);
}

TEST_F(LoaderTest, RefusesFewerSamplesThanOneBatch) {
  LoaderOptions chosen = options();
  chosen.batch_samples = 93;
  EXPECT_THAT(failure(chosen), AllOf(HasSubstr("data: fewer samples than one batch"),
                                     HasSubstr("92 training samples"), HasSubstr("at least 93")));
  chosen.batch_samples = 0;
  EXPECT_THAT(failure(chosen), HasSubstr("data: empty batch"));
  chosen = options(0);
  EXPECT_THAT(failure(chosen), HasSubstr("data: no decoding thread"));
}

TEST_F(LoaderTest, RefusesAStateOfAnotherRun) {
  Loader loader(options(), encoder_);
  (void)loader.next_batch();
  const LoaderState good = loader.state();
  const auto message = [&](auto&& change) -> std::string {
    LoaderState state = good;
    change(state);
    try {
      loader.restore(state);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kCheckpointRefused);
      return error.what();
    }
    return "restored";
  };
  EXPECT_EQ(message([](LoaderState&) {}), "restored");
  EXPECT_THAT(message([](LoaderState& s) { s.seed = 12; }), HasSubstr("another seed; found: 11"));
  EXPECT_THAT(message([](LoaderState& s) { s.weights[0] = 2; }), HasSubstr("another mixture"));
  EXPECT_THAT(message([](LoaderState& s) { s.start_steps[1] = 9; }), HasSubstr("another mixture"));
  EXPECT_THAT(message([](LoaderState& s) { s.sources[0].content = "0"; }),
              AllOf(HasSubstr("another data set"), HasSubstr("small: 10 records")));
  EXPECT_THAT(message([](LoaderState& s) { s.sources.pop_back(); }),
              HasSubstr("another number of sources"));
  EXPECT_THAT(message([](LoaderState& s) { s.cursors[0] += 1; }),
              HasSubstr("cursors that sum up to 9"));
  EXPECT_THAT(message([](LoaderState& s) { s.held_out_fraction = 0.5; }),
              HasSubstr("another held_out_fraction"));
}

TEST(LoaderState, RefusesDamagedJson) {
  const auto message = [](const Json& json) -> std::string {
    try {
      (void)loader_state_from_json(json, "loader.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kCheckpointRefused);
      return error.what();
    }
    return "read";
  };
  Json json = to_json(LoaderState{});
  EXPECT_EQ(message(json), "read");
  json["seed"] = "one";
  EXPECT_THAT(message(json), HasSubstr("loader.json seed"));
  json.erase("seed");
  EXPECT_THAT(message(json), HasSubstr("lacks a key; where: loader.json; expected: seed"));
  json["format"] = "tributary.loader/9";
  EXPECT_THAT(message(json), HasSubstr("another format"));
  EXPECT_THAT(message(Json::array()), HasSubstr("lacks a key"));
}

TEST_F(LoaderTest, HeldOutPartIsDisjointAndTheSameForEverySeed) {
  LoaderOptions chosen = options();
  chosen.data.held_out_fraction = 0.25;
  folder_.write("large.jsonl", lines_of("l", 400));
  const HeldOut held_out(chosen.data, encoder_);
  std::set<std::string> kept;
  for (std::int64_t i = 0; i < held_out.size(1); ++i) {
    const HeldOutSample sample = held_out.load(1, i).value();
    EXPECT_EQ(sample.sample.id, i);
    EXPECT_EQ(sample.sample.source, 1);
    kept.insert(sample.sample.key);
  }
  EXPECT_EQ(std::ssize(kept), held_out.size(1));
  EXPECT_NEAR(static_cast<double>(kept.size()), 100, 45);
  for (const std::uint64_t seed : {1u, 2u}) {
    chosen.seed = seed;
    Loader loader(chosen, encoder_);
    EXPECT_EQ(loader.records() + held_out.size(0) + held_out.size(1), 410);
    for (int i = 0; i < 100; ++i)
      for (const EncodedSample& sample : loader.next_batch())
        EXPECT_FALSE(kept.contains(sample.key)) << sample.key;
  }
}

TEST_F(LoaderTest, HoldsOutAtLeastOneOfTwoRecords) {
  LoaderOptions chosen = options();
  chosen.data.held_out_fraction = 0.001;
  for (const int records : {2, 3, 15, 40}) {
    folder_.write("small.jsonl", lines_of("s", records));
    const HeldOut held_out(chosen.data, encoder_);
    EXPECT_EQ(held_out.size(0), 1) << records << " records";
    const std::string kept = held_out.load(0, 0).value().sample.key;
    Loader loader(chosen, encoder_);
    EXPECT_EQ(loader.records(), records - 1 + 82 - held_out.size(1));
    for (int i = 0; i < 40; ++i)
      for (const EncodedSample& sample : loader.next_batch()) EXPECT_NE(sample.key, kept);
  }
  folder_.write("small.jsonl", lines_of("s", 1));
  EXPECT_EQ(HeldOut(chosen.data, encoder_).size(0), 0) << "nothing would be left to train on";
  chosen.data.held_out_fraction = 0;
  folder_.write("small.jsonl", lines_of("s", 15));
  EXPECT_EQ(HeldOut(chosen.data, encoder_).size(0), 0);
}

TEST_F(LoaderTest, HeldOutFileIsReadInItsOrder) {
  LoaderOptions chosen = options();
  folder_.write("test.jsonl", line_of("first") + line_of("bad") + line_of("third"));
  chosen.data.sources[0].held_out = folder_.at("test.jsonl");
  chosen.data.held_out_fraction = 0;
  const HeldOut held_out(chosen.data, encoder_);
  EXPECT_EQ(held_out.size(0), 3);
  EXPECT_EQ(held_out.size(1), 0);
  EXPECT_EQ(held_out.describe(0, 0).value().tokens.count, 5);
  EXPECT_EQ(held_out.describe(0, 1).refusal().code, "too_ugly");
  EXPECT_EQ(text_of(held_out.load(0, 0).value().sample), "first");
  EXPECT_EQ(held_out.load(0, 1).refusal().code, "too_ugly");
  EXPECT_EQ(text_of(held_out.load(0, 2).value().sample), "third");
}

TEST_F(LoaderTest, RefusesAHeldOutPartThatLeavesNothing) {
  LoaderOptions chosen = options();
  chosen.data.held_out_fraction = 1.0;
  EXPECT_THAT(failure(chosen),
              AllOf(HasSubstr("held-out fraction is out of range"), HasSubstr("found: 1")));
}

}  // namespace
}  // namespace tributary::data
