#include "memory/protocol/outbox.h"

#include <gtest/gtest.h>

#include "memory/protocol/table_view.h"
#include "tests/memory/protocol/small_job.h"

namespace tributary::memory {
namespace {

std::size_t resent(Outbox& outbox, std::int64_t at) {
  std::vector<Action> actions;
  outbox.resend(at_ms(at), actions);
  return actions.size();
}

TEST(Outbox, SendsAgainUntilTheNewestIsAcknowledged) {
  Outbox outbox(at_ms(100));
  std::vector<Action> actions;
  const Credit older{.granted_pages = 1, .sequence = 1}, newer{.granted_pages = 2, .sequence = 2};
  outbox.post(kProducer, older, at_ms(0), actions);
  outbox.post(kProducer, newer, at_ms(10), actions);
  EXPECT_EQ(sent<Credit>(actions).size(), 2);
  EXPECT_EQ(resent(outbox, 109), 0);
  EXPECT_EQ(resent(outbox, 110), 1);  // the newer one alone
  EXPECT_EQ(resent(outbox, 150), 0);
  outbox.acknowledge(kProducer, ack_of(older));
  outbox.acknowledge(kOther, ack_of(newer));
  EXPECT_EQ(resent(outbox, 309), 0);  // longer than the first time
  EXPECT_EQ(resent(outbox, 310), 1);
  outbox.acknowledge(kProducer, ack_of(newer));
  outbox.acknowledge(kProducer, ack_of(newer));
  EXPECT_EQ(resent(outbox, 5'000), 0);
}

TEST(Outbox, WaitsEverLongerUpToABound) {
  Outbox outbox(at_ms(10));
  std::vector<Action> actions;
  outbox.post(kProducer, CommitMessage{.step = 1}, at_ms(0), actions);
  std::int64_t at = 0;
  for (const std::int64_t wait : {10, 20, 40, 80, 80, 80}) {
    at += wait;
    EXPECT_EQ(resent(outbox, at - 1), 0);
    EXPECT_EQ(resent(outbox, at), 1);
  }
  outbox.post(kProducer, CommitMessage{.step = 2}, at_ms(at), actions);
  EXPECT_EQ(resent(outbox, at + 10), 1);  // news go soon
}

TEST(Outbox, SendsAllAgainOverANewLink) {
  Outbox outbox(at_ms(10));
  std::vector<Action> actions;
  outbox.post(kProducer, CommitMessage{.step = 1}, at_ms(0), actions);
  outbox.post(kConsumer, CommitMessage{.step = 1}, at_ms(0), actions);
  for (const std::int64_t at : {10, 30, 70}) EXPECT_EQ(resent(outbox, at), 2);
  std::vector<Action> again;
  outbox.resend_all(kProducer, at_ms(75), again);
  EXPECT_EQ(again.size(), 1);
  EXPECT_EQ(resent(outbox, 94), 0);
  EXPECT_EQ(resent(outbox, 95), 1);  // to the producer; to the other in its turn
  EXPECT_EQ(resent(outbox, 150), 2);
}

TEST(Outbox, KeepsMessagesAboutDifferentThings) {
  Outbox outbox(at_ms(100));
  std::vector<Action> actions;
  for (const std::uint64_t step : {1, 2}) {
    outbox.post(kProducer, AssignMessage{.step = step, .version = step}, at_ms(0), actions);
    outbox.post(kConsumer, PlanMessage{.step = step}, at_ms(0), actions);
    outbox.post(kConsumer, PublishMessage{.sequence = step, .handle = handle_of(step, kProducer)},
                at_ms(0), actions);
    outbox.post(kConsumer, EpochMessage{.process = static_cast<std::uint16_t>(step), .epoch = 3},
                at_ms(0), actions);
  }
  EXPECT_EQ(resent(outbox, 100), 8);
  EXPECT_TRUE(outbox.has_epoch_of(1));
  EXPECT_FALSE(outbox.has_epoch_of(3));
  outbox.drop_objects({Key{.sample = 9}, Key{.sample = 1}});
  EXPECT_EQ(resent(outbox, 300), 7);
  outbox.drop_peer(kConsumer);
  EXPECT_EQ(resent(outbox, 700), 2);
}

TEST(TableView, KnowsTheNewestTableInAnyOrder) {
  std::vector<EpochMessage> messages;
  PageTable table = first_table();
  std::uint32_t epoch = 1;
  for (const std::uint16_t process : {kProducer, kOther, kProducer}) {
    const std::vector<SegmentRow> rows{row_of(process, ++epoch)};
    table = table.with_rows_of(process, rows).value();
    messages.push_back(
        {.process = process, .epoch = epoch, .rows = rows, .digest = table.digest()});
  }
  std::vector<int> order{0, 1, 2};
  do {
    TableView view(first_table());
    EXPECT_TRUE(view.is_agreed());
    std::uint32_t newest = 1;
    bool has_other = false;
    for (const int i : order) {
      const bool is_newer = messages[i].epoch > view.epoch_of(messages[i].process);
      EXPECT_EQ(view.apply(messages[i]).value(), is_newer);
      newest = std::max(newest, messages[i].epoch);
      has_other = has_other || i == 1;
      // The table is whole when what the newest message knows of every process is there.
      const bool is_whole = newest == 2 || (newest == 4 && has_other) ||
                            (newest == 3 && view.epoch_of(kProducer) == 2);
      EXPECT_EQ(view.is_agreed(), is_whole);
    }
    EXPECT_EQ(view.table().digest(), table.digest());
    EXPECT_FALSE(view.apply(messages[0]).value());  // a late copy
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(TableView, RefusesRowsThatBreakARule) {
  TableView view(first_table());
  SegmentRow row = row_of(kProducer, 2);
  row.length = 1;
  EXPECT_FALSE(view.apply({.process = kProducer, .epoch = 2, .rows = {row}, .digest = {}}));
  EXPECT_EQ(view.epoch_of(kProducer), 1);
}

}  // namespace
}  // namespace tributary::memory
