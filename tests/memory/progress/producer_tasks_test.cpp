#include "memory/progress/producer_tasks.h"

#include "core/error.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

[[nodiscard]] ProducerTask task_of(std::uint64_t sample) {
  return {.slot = SlotId{sample}, .key = {.sample = sample}};
}

/// A task that is handed out.
[[nodiscard]] ProducerTask hand_out(ProducerTasks& tasks, std::uint64_t sample) {
  tasks.add(task_of(sample));
  return *tasks.next({});
}

TEST(ProducerTasks, AreHandedOutOnceAndInOrder) {
  ProducerTasks tasks;
  tasks.add(task_of(1));
  tasks.add(task_of(2));
  EXPECT_EQ(tasks.next({})->key.sample, 1);
  EXPECT_EQ(tasks.next({})->key.sample, 2);
  EXPECT_FALSE(tasks.next({}));
}

TEST(ProducerTasks, AreTakenBackBeforeAndAfterTheyAreHandedOut) {
  ProducerTasks tasks;
  const ProducerTask begun = hand_out(tasks, 1);
  tasks.add(task_of(2));
  tasks.add(task_of(3));
  EXPECT_TRUE(tasks.cancel(SlotId{2}));
  EXPECT_FALSE(tasks.cancel(SlotId{2}));  // once
  EXPECT_FALSE(tasks.cancel(SlotId{9}));  // unknown
  EXPECT_EQ(tasks.next({})->key.sample, 3);
  EXPECT_FALSE(tasks.is_cancelled(begun));
  EXPECT_TRUE(tasks.cancel(begun.slot));
  EXPECT_FALSE(tasks.cancel(begun.slot));
  EXPECT_TRUE(tasks.is_cancelled(begun));
  EXPECT_FALSE(tasks.end(begun));
  EXPECT_FALSE(tasks.is_cancelled(begun));
  EXPECT_THROW(static_cast<void>(tasks.end(begun)), Error);
}

TEST(ProducerTasks, AreWrittenOrCancelledButNotBoth) {
  ProducerTasks tasks;
  const ProducerTask written = hand_out(tasks, 1), cancelled = hand_out(tasks, 2);
  EXPECT_TRUE(tasks.begin_to_write(written));
  EXPECT_FALSE(tasks.cancel(written.slot));
  EXPECT_TRUE(tasks.end(written));
  EXPECT_FALSE(tasks.cancel(written.slot));  // its end is on its way
  EXPECT_TRUE(tasks.cancel(cancelled.slot));
  EXPECT_FALSE(tasks.begin_to_write(cancelled));
  EXPECT_THROW(static_cast<void>(tasks.begin_to_write(cancelled)), Error);  // it has ended
}

TEST(ProducerTasks, EndTheWaitWhenSomethingElseHasComeOrTheJobEnds) {
  ProducerTasks tasks;
  tasks.wake();
  EXPECT_FALSE(tasks.next(kLong));  // at once
  tasks.add(task_of(1));
  tasks.close();
  tasks.add(task_of(2));
  EXPECT_FALSE(tasks.next(kLong));
}

TEST(ProducerTasks, CountTheTimeInWhichSomeTaskIsUnderWay) {
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  ProducerTasks tasks;
  pause();
  EXPECT_EQ(tasks.busy().count, 0);
  const ProducerTask task = hand_out(tasks, 1);
  EXPECT_TRUE(tasks.cancel(task.slot));  // its encoder is still at work
  pause();
  EXPECT_FALSE(tasks.end(task));
  const Nanoseconds busy = tasks.busy();
  EXPECT_GE(busy.count, 5'000'000);
  pause();
  EXPECT_EQ(tasks.busy(), busy);
}

}  // namespace
}  // namespace tributary::memory
