// Links between the controller and the others that the network breaks.

#include "tests/memory/progress/relay.h"
#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

/// A reader and a producer that reach the controller through a relay.
class BrokenLinks : public testing::Test {
 protected:
  BrokenLinks() {
    relay.stand_before(directory.path());
    encoder = std::make_unique<Encoder>(producer_options(directory.path()));
    reader = std::make_unique<PoolReader>(
        PoolReaderOptions{.directory = directory.path(), .patience = kLong});
  }
  void SetUp() override {
    ASSERT_TRUE(until([&] { return reader->counts().producers == 1; }));
    ASSERT_GE(relay.connections(), 2);
  }
  void run_steps(std::uint64_t count) {
    for (const std::uint64_t end = step + count; step < end; ++step) {
      for (; planned < step + 3; ++planned) controller.plan(planned_step(planned, 1));
      for (const Key& key : keys_of(step, 1, 0)) {
        const auto object = reader->take(key, kLong);
        ASSERT_TRUE(object) << "step " << step;
        EXPECT_TRUE(std::ranges::equal(object->bytes.span(), bytes_of(key)));
      }
      reader->finish_step(step);
    }
  }
  [[nodiscard]] bool reopens(std::uint64_t count) {
    return until([&] { return controller.counts().reopened >= count; });
  }
  /// All are in under the epochs that they had, and nothing was made twice.
  void expect_the_same_members() {
    const PoolCounts counts = controller.counts();
    EXPECT_EQ(counts.joined, 1);
    EXPECT_EQ(counts.fenced, 0);
    EXPECT_EQ(counts.stopped, "");
    EXPECT_EQ(reader->counts().stopped, "");
    EXPECT_EQ(reader->counts().missed, 0);
    EXPECT_EQ(encoder->producer().end(), PoolProducer::End::kNone);
    EXPECT_EQ(encoder->producer().counts().objects, 4 * planned);
  }

  JobDirectory directory;
  PoolController controller{{.directory = directory.path(),
                             .page_bytes = kPoolPage,
                             .reserve_pages = kLargest,
                             .timers = short_timers()}};
  Relay relay{find_pool(directory.path()).value().job.endpoint};
  std::unique_ptr<Encoder> encoder;
  std::unique_ptr<PoolReader> reader;
  std::uint64_t step = 0, planned = 0;
};

TEST_F(BrokenLinks, AreOpenedAgainUnderTheSameEpoch) {
  for (std::uint64_t breaks = 1; breaks <= 5; ++breaks) {
    run_steps(3);
    relay.reset();
    run_steps(3);
    ASSERT_TRUE(reopens(2 * breaks));
  }
  ASSERT_TRUE(until([&] { return encoder->producer().counts().objects == 4 * planned; }));
  expect_the_same_members();
}

TEST_F(BrokenLinks, AreReplacedWhenNothingIsHeard) {
  run_steps(3);
  relay.hold(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // eight heartbeats
  relay.hold(false);
  run_steps(3);
  ASSERT_TRUE(reopens(2));
  ASSERT_TRUE(until([&] { return encoder->producer().counts().objects == 4 * planned; }));
  expect_the_same_members();
}

TEST_F(BrokenLinks, AreOpenedAgainAfterADamagedMessage) {
  run_steps(2);
  for (std::uint64_t flips = 1; flips <= 8; ++flips) {
    relay.flip_a_bit();
    ASSERT_TRUE(reopens(flips));
  }
  run_steps(3);
  ASSERT_TRUE(until([&] { return encoder->producer().counts().objects == 4 * planned; }));
  expect_the_same_members();
}

}  // namespace
}  // namespace tributary::memory
