// An owner takes back pages that it has given to its encoder.

#include <atomic>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "memory/protocol/owner_core.h"
#include "tests/memory/protocol/small_job.h"

namespace tributary::memory {
namespace {

class CancelledEncodes : public testing::Test {
 protected:
  std::vector<Action> give(const Event& event) { return owner.step(event, now); }
  /// Assigns objects of one page; returns what the owner does.
  std::vector<Action> assign(std::uint64_t step, const std::vector<std::uint64_t>& samples) {
    AssignMessage message{.step = step, .version = ++version};
    for (const std::uint64_t sample : samples)
      message.objects.push_back({.key = {.sample = sample}, .pages = 1});
    return note(give(from(kController, message)));
  }
  /// Keeps the slot of each Encode, by its sample.
  std::vector<Action> note(std::vector<Action> actions) {
    for (const Encode& encode : all_of<Encode>(actions)) slots[encode.key.sample] = encode.slot;
    return actions;
  }
  std::vector<Action> encoded(std::uint64_t sample) {
    return note(give(Encoded{.slot = slots.at(sample), .description = {.bytes = 10}}));
  }
  std::vector<Action> cancelled(std::uint64_t sample) {
    return note(give(EncodeCancelled{.slot = slots.at(sample)}));
  }
  /// One object of step 0 and five of step 1, being written; then step 0 has four, as another
  /// producer was lost. 8 pages less 1 of reserve and 4 of step 0 leave 3 to step 1.
  std::vector<Action> take_over() {
    give(from(kController, Credit{.granted_pages = 20, .sequence = 1, .epoch = 1}));
    assign(0, {1});
    assign(1, {2, 3, 4, 5, 6});
    EXPECT_EQ(owner.objects().arena().used_pages(), 6);
    return assign(0, {1, 7, 8, 9});
  }
  [[nodiscard]] std::uint64_t used() const { return owner.objects().arena().used_pages(); }

  TimePoint now = at_ms(10);
  std::vector<std::atomic<std::uint64_t>> generations =
      std::vector<std::atomic<std::uint64_t>>(kPages);
  OwnerCore owner{{.identity = member(kProducer),
                   .place = {.process = kProducer, .page_bytes = kPageBytes, .pages = kPages},
                   .reserve_pages = 1,
                   .encoders = UINT32_MAX},
                  first_table(),
                  Generations(generations)};
  std::uint64_t version = 0;
  std::map<std::uint64_t, SlotId> slots;
};

TEST_F(CancelledEncodes, AreTheNewestOnesAndGiveTheirPagesToTheOldestStep) {
  const auto actions = take_over();
  const auto asked = all_of<CancelEncode>(actions);
  ASSERT_EQ(asked.size(), 2);
  EXPECT_EQ(asked[0].slot, slots.at(6));
  EXPECT_EQ(asked[1].slot, slots.at(5));
  EXPECT_TRUE(sent<RetractMessage>(actions).empty());  // nobody knows of them
  EXPECT_EQ(all_of<Encode>(actions).size(), 2);        // of the pages that were free
  EXPECT_EQ(used(), 8);  // the encoder may still write into those of the cancelled ones
  EXPECT_TRUE(owner.is_blocked());
  EXPECT_TRUE(all_of<CancelEncode>(give(Tick{})).empty());  // it is asked once

  const auto begun = all_of<Encode>(cancelled(6));
  ASSERT_EQ(begun.size(), 1);
  EXPECT_EQ(begun[0].key.sample, 9);
  EXPECT_EQ(owner.credits().consumed(), 8);
  EXPECT_TRUE(all_of<Encode>(cancelled(5)).empty());  // 5 and 6 would break the rule again
  EXPECT_EQ(owner.credits().consumed(), 7);
  EXPECT_EQ(used(), 7);
}

TEST_F(CancelledEncodes, AreMadeAgainWhenThereIsRoom) {
  take_over();
  cancelled(6);
  cancelled(5);
  for (const std::uint64_t sample : {1, 7, 8, 9})
    EXPECT_EQ(sent<PublishMessage>(encoded(sample)).size(), 1);
  const SlotId before = slots.at(6);
  const auto again = all_of<Encode>(note(give(from(kController, CommitMessage{.step = 0}))));
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again[0].key.sample, 5);
  EXPECT_EQ(again[1].key.sample, 6);
  EXPECT_NE(again[1].slot, before);
  const auto published = sent<PublishMessage>(encoded(6));
  ASSERT_EQ(published.size(), 1);
  EXPECT_EQ(published[0].second.handle.fields.key.sample, 6);
}

TEST_F(CancelledEncodes, AreNotPublishedWhereTheyWereFinishedAllTheSame) {
  take_over();
  EXPECT_TRUE(sent<PublishMessage>(encoded(6)).empty());
  EXPECT_TRUE(slots.contains(9));  // has its pages
  EXPECT_EQ(owner.member().progress, 0);
  for (int late = 0; late < 2; ++late) {
    EXPECT_TRUE(cancelled(6).empty());
    EXPECT_EQ(used(), 8);
  }
}

TEST_F(CancelledEncodes, EndByAFailureToo) {
  take_over();
  const auto actions = note(give(EncodeFailed{.slot = slots.at(6), .reason = "damaged"}));
  EXPECT_TRUE(sent<PublishMessage>(actions).empty());
  ASSERT_EQ(all_of<Encode>(actions).size(), 1);
  EXPECT_EQ(all_of<Encode>(actions)[0].key.sample, 9);
  EXPECT_TRUE(cancelled(6).empty());
}

TEST_F(CancelledEncodes, AreOnlyThoseThatWereAskedFor) {
  take_over();
  const std::uint64_t pages = used(), credit = owner.credits().consumed();
  EXPECT_TRUE(cancelled(2).empty());  // it goes on
  encoded(1);
  EXPECT_TRUE(cancelled(1).empty());  // it is sealed
  EXPECT_TRUE(give(EncodeCancelled{.slot = SlotId{99}}).empty());
  EXPECT_EQ(used(), pages);
  EXPECT_EQ(owner.credits().consumed(), credit);
  EXPECT_EQ(sent<PublishMessage>(encoded(2)).size(), 1);
}

TEST_F(CancelledEncodes, AreMadeAtOnceWhereTheirStepHasBecomeTheOldest) {
  take_over();
  give(from(kController, CommitMessage{.step = 0}));  // its readers did not wait
  const auto again = all_of<Encode>(cancelled(6));
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].key.sample, 6);
}

TEST_F(CancelledEncodes, AreNotMadeAgainForAStepThatIsOver) {
  take_over();
  give(from(kController, CommitMessage{.step = 1}));
  EXPECT_TRUE(all_of<Encode>(cancelled(6)).empty());
  EXPECT_TRUE(sent<PublishMessage>(encoded(5)).empty());
  for (const std::uint64_t sample : {1, 2, 3, 4, 7, 8}) encoded(sample);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(owner.credits().consumed(), 0);
}

TEST_F(CancelledEncodes, EndWithTheirOwnerWhenItIsFenced) {  // I18
  take_over();
  give(from(kController, EpochMessage{.process = kProducer, .epoch = 2}));
  EXPECT_TRUE(cancelled(6).empty());
  EXPECT_TRUE(encoded(5).empty());
}

TEST_F(CancelledEncodes, AreAskedForAmongSealedObjectsNewestFirst) {
  give(from(kController, Credit{.granted_pages = 20, .sequence = 1, .epoch = 1}));
  assign(0, {1});
  assign(1, {2, 3, 4, 5, 6});
  encoded(6);
  const auto actions = assign(0, {1, 7, 8, 9});
  const auto retracted = sent<RetractMessage>(actions);
  ASSERT_EQ(retracted.size(), 1);
  EXPECT_EQ(retracted[0].second.key.sample, 6);
  const auto asked = all_of<CancelEncode>(actions);
  ASSERT_EQ(asked.size(), 1);
  EXPECT_EQ(asked[0].slot, slots.at(5));
}

}  // namespace
}  // namespace tributary::memory
