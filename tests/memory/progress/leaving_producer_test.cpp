#include <gtest/gtest.h>

#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

/// A pool with one reader.
struct LeavingProducer : testing::Test {
  /// Takes the four objects of a step, two steps after the last one that is planned by then.
  std::size_t run_step(std::uint64_t step) {
    for (; planned < step + 3; ++planned) controller.plan(planned_step(planned, 1));
    std::size_t came = 0;
    for (const Key& key : keys_of(step, 1, 0)) {
      const auto object = reader.take(key, kLong);
      came += object && std::ranges::equal(object->bytes.span(), bytes_of(key)) ? 1 : 0;
    }
    reader.finish_step(step);
    return came;
  }
  [[nodiscard]] bool know_producers(std::uint64_t count) {
    return until([&] { return reader.counts().producers == count; });
  }

  JobDirectory directory;
  PoolController controller{{.directory = directory.path(),
                             .page_bytes = kPoolPage,
                             .reserve_pages = kLargest,
                             .timers = short_timers()}};
  PoolReader reader{{.directory = directory.path(), .patience = kLong}};
  std::uint64_t planned = 0;
};

TEST_F(LeavingProducer, LosesNothingThatItHasMade) {
  auto first = std::make_unique<Encoder>(producer_options(directory.path()));
  Encoder second(producer_options(directory.path()));
  ASSERT_TRUE(know_producers(2));
  EXPECT_EQ(run_step(0), 4);
  ASSERT_TRUE(until([&] { return controller.counts().objects_made == 8; }));
  first->producer().leave();
  for (std::uint64_t step = 1; step < 6; ++step) EXPECT_EQ(run_step(step), 4) << step;
  EXPECT_TRUE(until([&] { return first->producer().has_left(); }));
  const std::uint64_t made = first->producer().counts().objects;
  EXPECT_LT(made, 20);
  first.reset();
  EXPECT_EQ(run_step(6), 4);
  EXPECT_TRUE(until([&] { return controller.counts().left == 1; }));
  // Each object once, those of the two steps that are made ahead among them.
  EXPECT_TRUE(until([&] { return made + second.producer().counts().objects == 36; }));
}

TEST_F(LeavingProducer, IsNotBusyWhileItWaitsWithATaskInHand) {
  Encoder encoder(producer_options(directory.path()), /*works_at_once=*/false);
  ASSERT_TRUE(know_producers(1));
  controller.plan(planned_step(0, 1));
  PoolProducer& producer = encoder.producer();
  const auto task = producer.next(kLong);
  ASSERT_TRUE(task);
  const Stopwatch wall;
  const double before = producer.counts().busy_seconds;
  while (const auto other = producer.next(milliseconds(300))) producer.drop(*other);
  const double waited = producer.counts().busy_seconds;
  EXPECT_LT(waited - before, wall.seconds() - 0.25);  // the last wait alone is 0.3 s
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GE(producer.counts().busy_seconds - waited, 0.05);
  producer.drop(*task);
}

}  // namespace
}  // namespace tributary::memory
