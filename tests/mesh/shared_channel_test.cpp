#include "mesh/transport/shared_channel.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/random.h"
#include "core/text.h"

namespace tributary::mesh {
namespace {

constexpr Patience kShort{.timeout_seconds = 0.2, .rank = 3, .other = nullptr};

/// Both ends in this process.
struct Channel {
  ChannelSender sender = {};
  ChannelReceiver receiver{getpid(), sender.mapping().descriptor(), sender.mapping().identity()};

  void put(const std::vector<int>& values, int tag, const Patience& patience = kShort) {
    sender.put(values.data(), values.size() * sizeof(int), tag, patience);
  }
  std::vector<int> take(std::size_t values, int tag, const Patience& patience = kShort) {
    std::vector<int> taken(values);
    receiver.take(taken.data(), values * sizeof(int), tag, patience);
    return taken;
  }
};

std::vector<int> numbers(int size, int first) {
  std::vector<int> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(SharedChannel, KeepsMessagesOfRandomSizesTakenInAnyOrder) {
  Channel channel;
  RandomStream random(1, "channel");
  struct Sent {
    int tag;
    int size;
    int first;
  };
  std::vector<Sent> under_way;
  for (int i = 0; i < 3000; ++i) {
    const bool sends = under_way.empty() || (under_way.size() < 40 && random.below(2) == 0);
    if (sends) {
      // Each tag is under way once, so that any message can be the next.
      under_way.push_back({.tag = i, .size = static_cast<int>(random.below(3000)), .first = 7 * i});
      channel.put(numbers(under_way.back().size, under_way.back().first), i);
    } else {
      const auto place =
          under_way.begin() + static_cast<std::ptrdiff_t>(random.below(under_way.size()));
      const Sent sent = *place;
      under_way.erase(place);
      ASSERT_EQ(channel.take(static_cast<std::size_t>(sent.size), sent.tag),
                numbers(sent.size, sent.first));
    }
  }
}

TEST(SharedChannel, WaitsForRoomAndForMessages) {
  Channel channel;
  constexpr int kMessages = 20'000;  // more than there are slots
  const Patience patience{.timeout_seconds = 30, .rank = 3, .other = nullptr};
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) channel.put({i}, 0, patience);
  });
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(channel.take(1, 0, patience).front(), i);
  sender.join();
}

TEST(SharedChannel, SaysWhatIsWrong) {
  Channel channel;
  EXPECT_EQ(failure_of([&] { channel.take(1, 0); }),
            "timed out after 0.2 s, waiting for rank 3 of the group");
  channel.put({1, 2}, 0);
  EXPECT_EQ(failure_of([&] { channel.take(1, 0); }),
            "a message of 8 bytes came where 4 were expected");
  for (int i = 1; i < 4096; ++i) channel.put({i}, 1);
  EXPECT_EQ(failure_of([&] { channel.put({1}, 1); }),
            "timed out after 0.2 s, waiting for rank 3 of the group");
}

TEST(SharedChannel, GivesWhatWasSentBeforeTheEnd) {
  auto sender = std::make_unique<ChannelSender>();
  ChannelReceiver receiver(getpid(), sender->mapping().descriptor(), sender->mapping().identity());
  const int value = 5;
  sender->put(&value, sizeof(value), 3, kShort);
  sender.reset();
  int taken = 0;
  receiver.take(&taken, sizeof(taken), 3, kShort);
  EXPECT_EQ(taken, 5);
  EXPECT_EQ(failure_of([&] { receiver.take(&taken, sizeof(taken), 3, kShort); }),
            "rank 3 of the group has ended");
}

TEST(SharedChannel, RefusesMemoryThatIsNotTheOneMeant) {
  ChannelSender sender;
  const ChannelMapping& mapping = sender.mapping();
  EXPECT_EQ(failure_of([&] {
              const ChannelReceiver other(getpid(), mapping.descriptor(), mapping.identity() + 1);
            }),
            "processes are not seen under their numbers");
}

TEST(SharedChannel, RefusesAMessageAboveItsRoom) {
  Channel channel;
  EXPECT_EQ(failure_of([&] { channel.sender.put(nullptr, kRoom + 1, 0, kShort); }),
            str("a message of ", kRoom + 1, " bytes is above ", kRoom));
}

TEST(SharedChannel, GivesUpAFullChannelWhoseReceiverLeaves) {
  ChannelSender sender;
  auto receiver = std::make_unique<ChannelReceiver>(getpid(), sender.mapping().descriptor(),
                                                    sender.mapping().identity());
  for (int i = 0; i < 4096; ++i) sender.put(&i, sizeof(i), 0, kShort);
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    receiver.reset();
  });
  const Patience patience{.timeout_seconds = 60, .rank = 3, .other = nullptr};
  EXPECT_EQ(failure_of([&] { sender.put(nullptr, 0, 0, patience); }),
            "rank 3 of the group has ended");
  leaves.join();
}

TEST(SharedChannel, UsesGivenBackMemoryAgain) {
  Channel channel;
  constexpr int kLarge = 20 << 20;  // values: more than a channel keeps
  for (int round = 0; round < 3; ++round) {
    channel.put(numbers(kLarge, round), 1);
    ASSERT_EQ(channel.take(kLarge, 1), numbers(kLarge, round));
    channel.put(numbers(10, round), 2);  // and its memory is given back
    ASSERT_EQ(channel.take(10, 2), numbers(10, round));
  }
}

TEST(SharedChannel, NoticesThatTheOtherProcessWasKilled) {
  Channel channel;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const ProcessWatch watch(child);
  EXPECT_FALSE(watch.has_ended());
  kill(child, SIGKILL);
  const Patience patience{.timeout_seconds = 20, .rank = 3, .other = &watch};
  EXPECT_EQ(failure_of([&] { channel.take(1, 0, patience); }), "rank 3 of the group has ended");
  EXPECT_TRUE(watch.has_ended());  // though nobody has waited for it
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace tributary::mesh
