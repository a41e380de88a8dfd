#include "memory/progress/control_links.h"

#include <gtest/gtest.h>

#include "memory/transport/socket/unix_socket.h"
#include "tests/memory/progress/small_pool.h"
#include "tests/memory/transport/object_owner.h"

namespace tributary::memory {
namespace {

/// A controller and a reader of one host, which are polled by hand.
class TwoEnds : public testing::Test {
 protected:
  void SetUp() override {
    controller.links().listen(listen_in_private_directory(directory.path(), "controller"));
    job.unix_socket = directory.path() + "/controller";
    ASSERT_TRUE(reader.connect(job, in_seconds(5)));
    ASSERT_TRUE(until([&] { return turn(), controller.has_links(); }));
  }
  void turn() {
    controller.poll(now(), [](const Event&) {});
    reader.poll(now(), [this](const Event& event) {
      const auto* message = std::get_if<MessageReceived>(&event);
      if (message == nullptr) return;
      const auto* plan = std::get_if<PlanMessage>(&message->message);
      if (plan != nullptr) came.push_back(plan->step);
    });
  }
  [[nodiscard]] ControlLinks end_of(Role role, std::uint16_t process) const {
    return ControlLinks(
        {.self = job.member(role, process, kFirstIncarnation), .epoch = kFirstEpoch}, make_key());
  }

  JobDirectory directory;
  PoolJob job{.page_bytes = kPoolPage, .timers = {}};
  ControlLinks controller = end_of(Role::kController, kControllerProcess);
  ControlLinks reader = end_of(Role::kConsumer, kFirstConsumer);
  std::vector<std::uint64_t> came;  // steps of plans
};

TEST_F(TwoEnds, KeepFewCopiesForAPeerThatStandsStill) {
  PlanMessage plan{.step = 1, .microbatches = {{.keys = std::vector<Key>(100'000)}}};
  const std::size_t bytes = body_of(plan).size();
  constexpr PeerLink kFirst{1};
  for (int i = 0; i < 12; ++i) {
    controller.send(kFirstConsumer, plan);
    controller.poll(now(), [](const Event&) {});
  }
  EXPECT_GT(bytes, std::size_t{2} << 20);
  EXPECT_GT(controller.links().unsent_bytes(kFirst), 2 * bytes);
  EXPECT_LT(controller.links().unsent_bytes(kFirst), (std::size_t{16} << 20) + 2 * bytes);
  // It goes on, and misses nothing that is sent from then on.
  ASSERT_TRUE(until([&] { return turn(), controller.links().unsent_bytes(kFirst) == 0; }));
  plan.step = 2;
  controller.send(kFirstConsumer, plan);
  ASSERT_TRUE(until([&] { return turn(), !came.empty() && came.back() == 2; }));
}

}  // namespace
}  // namespace tributary::memory
