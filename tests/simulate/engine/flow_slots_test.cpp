#include "simulate/engine/flow_slots.h"

#include <gtest/gtest.h>
#include <map>

#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

/// Messages that are given and arrive in any order that their buffers allow: one is given when the
/// one that had its buffer before has arrived.
class Traffic {
 public:
  explicit Traffic(const StepCase& of) : of_(of) {
    for (int channel = 0; channel < std::ssize(of.program.channels()); ++channel)
      given_.push_back(of.program.channels()[channel].first_message);
    arrived_.assign(of.program.messages().size(), false);
  }

  /// shape: the next message of each channel that has a free buffer
  [[nodiscard]] std::vector<int> find_ready() const {
    std::vector<int> ready;
    for (int index = 0; index < std::ssize(given_); ++index) {
      const Channel& channel = of_.program.channels()[index];
      if (given_[index] == channel.first_message + channel.messages) continue;
      const int earlier = buffer_before(of_.program, of_.network, given_[index]).message;
      if (earlier < 0 || arrived_[earlier]) ready.push_back(given_[index]);
    }
    return ready;
  }
  void give(int message) { ++given_[of_.program.messages()[message].channel]; }
  void arrive(int message) { arrived_[message] = true; }

 private:
  const StepCase& of_;
  std::vector<int> given_;  // [channels] the next one
  std::vector<bool> arrived_;
};

TEST(FlowSlots, AreNeverSharedByMessagesUnderWay) {
  std::size_t messages = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    StepCase of = seed % 3 == 0 ? draw_whole_batches(seed) : draw_case(seed);
    RandomStream random(seed, "slots");
    if (random.below(2) == 0) keep_features_in_a_pool(of, static_cast<int>(random.between(1, 3)));
    const FlowSlots slots(of.program, of.network);
    const std::vector<const Route*> routes = slots.routes(of.network);
    ASSERT_EQ(routes.size(), slots.count());
    Traffic traffic(of);
    std::map<int, int> message_in;  // slot -> message under way
    std::size_t max = 0;
    // From hardly ever two at a time to as many as there can be.
    const std::uint64_t rush = random.below(12);
    for (std::vector<int> ready = traffic.find_ready(); !ready.empty() || !message_in.empty();
         ready = traffic.find_ready()) {
      if (!ready.empty() && (message_in.empty() || random.below(12) <= rush)) {
        const int message = random.pick(std::span(ready));
        const int slot = slots.of(message);
        ASSERT_TRUE(message_in.emplace(slot, message).second) << "slot " << slot << " is taken";
        ASSERT_EQ(routes.at(slot), &of.network.routes[of.program.messages()[message].channel]);
        traffic.give(message);
        max = std::max(max, message_in.size());
        ++messages;
      } else {
        const auto arrived =
            std::next(message_in.begin(), static_cast<int>(random.below(message_in.size())));
        ASSERT_EQ(slots.of(arrived->second), arrived->first);
        traffic.arrive(arrived->second);
        message_in.erase(arrived);
      }
    }
    // None is there for nothing: so many are under way when all are given before any arrives.
    if (rush == 11) {
      EXPECT_EQ(max, slots.count());
    }
  }
  EXPECT_GT(messages, 10000u);
}

}  // namespace
}  // namespace tributary::simulate
