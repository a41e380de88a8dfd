#include "memory/protocol/reader_core.h"

#include <gtest/gtest.h>

#include "tests/memory/protocol/small_job.h"

namespace tributary::memory {
namespace {

class ReaderCoreTest : public testing::Test {
 protected:
  std::vector<Action> give(const Event& event) { return reader.step(event, now); }
  /// Step `step` has two microbatches for this reader, samples 10 s + {1, 2} and {3}, and one for
  /// another.
  std::vector<Action> plan(std::uint64_t step) {
    const auto keys = [&](std::vector<std::uint64_t> samples) {
      std::vector<Key> list;
      for (const std::uint64_t sample : samples) list.push_back({.sample = 10 * step + sample});
      return list;
    };
    return give(from(kController, PlanMessage{.step = step,
                                              .microbatches = {
                                                  {.dp_rank = 0, .order = 1, .keys = keys({3})},
                                                  {.dp_rank = 1, .order = 0, .keys = keys({4})},
                                                  {.dp_rank = 0, .order = 0, .keys = keys({1, 2})},
                                              }}));
  }
  std::vector<Action> publish(std::uint64_t sample, std::uint64_t sequence = 1,
                              std::uint64_t generation = 1) {
    return give(from(kController, PublishMessage{.sequence = sequence,
                                                 .handle = handle_of(sample, kProducer, generation,
                                                                     sample % kPages)}));
  }
  /// Publishes an object and brings its bytes.
  std::vector<Action> bring(std::uint64_t sample) {
    const auto get = all_of<StartGet>(publish(sample));
    EXPECT_EQ(get.size(), 1);
    return give(GetDone{.request = get.at(0).request, .status = Status::kOk});
  }

  TimePoint now = at_ms(10);
  ReaderCore reader{{.identity = member(kConsumer), .dp_rank = 0}, first_table()};
};

TEST_F(ReaderCoreTest, DeliversInTheOrderOfThePlan) {
  plan(0);
  plan(1);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> delivered;
  for (const std::uint64_t sample : {13, 3, 2, 12, 1, 11})
    for (const DeliverMicrobatch& one : all_of<DeliverMicrobatch>(bring(sample)))
      delivered.emplace_back(one.step, one.order);
  EXPECT_EQ(delivered,
            (std::vector<std::pair<std::uint64_t, std::uint32_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST_F(ReaderCoreTest, AcknowledgesNoObjectOfAPlanThatItDoesNotHave) {
  EXPECT_TRUE(publish(1).empty());
  plan(0);
  EXPECT_EQ(sent<AckMessage>(publish(1)).size(), 1);
  EXPECT_TRUE(sent<AckMessage>(publish(4)).empty());  // of the other reader
}

TEST_F(ReaderCoreTest, AsksForALaterHandleWhenOneIsStale) {
  plan(0);
  const auto get = all_of<StartGet>(publish(1, 5)).at(0);
  EXPECT_TRUE(all_of<StartGet>(give(GetDone{get.request, Status::kStale})).empty());
  now = at_ms(300);
  const auto resolve = sent<ResolveMessage>(give(Tick{}));
  ASSERT_EQ(resolve.size(), 1);
  EXPECT_EQ(resolve[0].second.sequence, 5);
  EXPECT_TRUE(all_of<StartGet>(publish(1, 5)).empty());  // the same one again
  EXPECT_EQ(all_of<StartGet>(publish(1, 6, 2)).size(), 1);
  EXPECT_TRUE(sent<ResolveMessage>(give(Tick{})).empty());
}

TEST_F(ReaderCoreTest, TriesAHandleThatCameWhileAnOlderOneWasRead) {
  plan(0);
  const auto get = all_of<StartGet>(publish(1, 5)).at(0);
  EXPECT_TRUE(all_of<StartGet>(publish(1, 6, 2)).empty());
  const auto again = all_of<StartGet>(give(GetDone{get.request, Status::kStale}));
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].handle.fields.generation, 2);
}

TEST_F(ReaderCoreTest, TriesAgainThenReportsTheOwner) {
  plan(0);
  std::vector<Action> actions = publish(1);
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto get = all_of<StartGet>(actions);
    ASSERT_EQ(get.size(), 1) << attempt;
    const auto fail = sent<FailMessage>(give(GetDone{get[0].request, Status::kTimeout}));
    ASSERT_EQ(fail.size(), attempt == 3 ? 1 : 0);
    for (const auto& [to, report] : fail) EXPECT_EQ(report.process, kProducer);
    EXPECT_TRUE(all_of<StartGet>(give(Tick{})).empty());  // not at once
    now += at_ms(20);
    actions = give(Tick{});
  }
}

TEST_F(ReaderCoreTest, WaitsWhenAnOwnerIsBusyAndReportsNobody) {
  plan(0);
  std::vector<Action> actions = publish(1);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto get = all_of<StartGet>(actions);
    ASSERT_EQ(get.size(), 1) << attempt;
    EXPECT_TRUE(sent<FailMessage>(give(GetDone{get[0].request, Status::kBusy})).empty());
    now += at_ms(20);
    actions = give(Tick{});
  }
}

TEST_F(ReaderCoreTest, StopsWhenAnOwnerSaysOutOfBounds) {
  plan(0);
  const auto get = all_of<StartGet>(publish(1)).at(0);
  const auto stop = all_of<StopProcess>(give(GetDone{get.request, Status::kBounds}));
  ASSERT_EQ(stop.size(), 1);
  EXPECT_EQ(stop[0].code, ExitCode::kBug);
}

TEST_F(ReaderCoreTest, SaysAtOnceThatItIsThereOverANewLink) {
  (void)give(Tick{});
  EXPECT_TRUE(sent<Heartbeat>(give(Tick{})).empty());  // not yet again
  EXPECT_EQ(sent<Heartbeat>(give(LinkRenewed{})).size(), 1);
}

TEST_F(ReaderCoreTest, ReadsNothingWhileItsTableIsAnother) {  // I4
  plan(0);
  const auto change = [&](std::uint32_t epoch, auto digest_of) {
    const std::vector<SegmentRow> rows{row_of(kOther, epoch)};
    const Digest digest = digest_of(first_table().with_rows_of(kOther, rows).value());
    return give(
        from(kController,
             EpochMessage{.process = kOther, .epoch = epoch, .rows = rows, .digest = digest}));
  };
  change(3, [](const PageTable&) { return Digest{}; });
  EXPECT_TRUE(all_of<StartGet>(publish(1)).empty());
  const auto gets =
      all_of<StartGet>(change(4, [](const PageTable& table) { return table.digest(); }));
  EXPECT_EQ(gets.size(), 1);
}

TEST_F(ReaderCoreTest, ReadsNothingOutsideTheBoundMemory) {
  plan(0);
  ObjectHandle outside = handle_of(1, kProducer, 1, kPages - 1);
  outside.fields.bytes = outside.extents[0].bytes = kPageBytes + 1;
  EXPECT_TRUE(
      all_of<StartGet>(give(from(kController, PublishMessage{.sequence = 1, .handle = outside})))
          .empty());
  ObjectHandle old = handle_of(2, kProducer, 1, 0, /*epoch=*/9);
  EXPECT_TRUE(
      all_of<StartGet>(give(from(kController, PublishMessage{.sequence = 1, .handle = old})))
          .empty());
}

TEST_F(ReaderCoreTest, TellsItsFinishedStepsAndForgetsTheirObjects) {
  plan(0);
  for (const std::uint64_t sample : {1, 2, 3}) bring(sample);
  const auto beat = sent<Heartbeat>(give(StepFinished{0}));
  ASSERT_EQ(beat.size(), 1);
  EXPECT_EQ(beat[0].second.step, 1);
  EXPECT_EQ(reader.current_step(), 1);
  EXPECT_TRUE(all_of<StartGet>(publish(1, 9)).empty());
  EXPECT_TRUE(sent<Heartbeat>(give(StepFinished{0})).empty());  // once
}

TEST_F(ReaderCoreTest, FinishesAStepWhoseObjectsDidNotCome) {
  plan(0);
  plan(1);
  const auto late = all_of<StartGet>(publish(1)).at(0);
  bring(11);
  EXPECT_EQ(sent<Heartbeat>(give(StepFinished{0})).at(0).second.step, 1);
  EXPECT_FALSE(reader.wants({.sample = 1}));
  EXPECT_TRUE(give(GetDone{late.request, Status::kOk}).empty());
  EXPECT_FALSE(reader.has_gathered({.sample = 1}));
  const auto delivered = all_of<DeliverMicrobatch>(bring(12));
  ASSERT_EQ(delivered.size(), 1);
  EXPECT_EQ(delivered[0].step, 1);
  give(StepFinished{1});
  give(StepFinished{2});  // its plan has not come yet
  EXPECT_EQ(sent<AckMessage>(plan(2)).size(), 1);
  EXPECT_FALSE(reader.wants({.sample = 21}));
  EXPECT_EQ(reader.current_step(), 3);
}

TEST_F(ReaderCoreTest, BlamesNoLaterHandleForTheFailureOfAnOlderOne) {
  plan(0);
  auto get = all_of<StartGet>(publish(1, 5)).at(0);
  publish(1, 6, 2);
  give(GetDone{get.request, Status::kPeerLost});
  for (int failures = 1; failures <= 3; ++failures) {
    now += at_ms(20);
    get = all_of<StartGet>(give(Tick{})).at(0);
    EXPECT_EQ(get.handle.fields.generation, 2);
    const auto fail = sent<FailMessage>(give(GetDone{get.request, Status::kPeerLost}));
    EXPECT_EQ(fail.size(), failures == 3 ? 1 : 0);
  }
}

TEST_F(ReaderCoreTest, AcknowledgesThatNobodyMakesAnObject) {
  plan(0);
  EXPECT_EQ(sent<AckMessage>(
                give(from(kController, RetractMessage{.key = {.sample = 1}, .generation = 4})))
                .size(),
            1);
  EXPECT_EQ(all_of<StartGet>(publish(1, 5)).size(), 1);  // somebody does after all
}

}  // namespace
}  // namespace tributary::memory
