#include "memory/progress/process_probes.h"

#include <gtest/gtest.h>
#include <optional>

#include "tests/memory/progress/small_pool.h"

namespace tributary::memory {
namespace {

class ProcessProbesTest : public testing::Test {
 protected:
  void start() { probes.start({.process = 7, .incarnation = 3}, text_of(listener->endpoint), now); }
  /// How often a process was told until so much time has passed.
  [[nodiscard]] int told_within(Nanoseconds time) {
    int told = 0;
    for (const TimePoint end = now + time; now < end; now = now + milliseconds(5))
      probes.poll(now, [&](const MemberLost& lost) {
        EXPECT_EQ(lost.process, 7);
        EXPECT_EQ(lost.incarnation, 3);
        ++told;
      });
    return told;
  }

  std::optional<TcpListener> listener = listen_on({.host = "127.0.0.1", .port = 0}, false);
  ProcessProbes probes;
  TimePoint now{};
};

TEST_F(ProcessProbesTest, TellOnceThatNobodyListens) {
  listener->socket = {};
  start();
  EXPECT_EQ(told_within(milliseconds(2'000)), 1);
}

TEST_F(ProcessProbesTest, TellNothingOfAProcessThatListens) {
  start();
  EXPECT_EQ(told_within(milliseconds(2'000)), 0);
}

TEST_F(ProcessProbesTest, TellOfAProcessThatWasEndingWhenItWasAsked) {
  start();
  EXPECT_EQ(told_within(milliseconds(200)), 0);
  listener->socket = {};
  EXPECT_EQ(told_within(milliseconds(1'000)), 1);
}

TEST_F(ProcessProbesTest, StopAfterASecond) {
  start();
  EXPECT_EQ(told_within(milliseconds(1'100)), 0);
  listener->socket = {};
  EXPECT_EQ(told_within(milliseconds(1'000)), 0);
}

}  // namespace
}  // namespace tributary::memory
