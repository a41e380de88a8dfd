#include <gtest/gtest.h>
#include <map>
#include <numeric>

#include "simulate/engine/contention.h"
#include "tests/simulate/engine/step_case.h"

namespace tributary::simulate {
namespace {

/// [0, size) in any order.
std::vector<int> draw_order(RandomStream& random, int size) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span(order));
  return order;
}

/// Ports as lanes have them, and wider links that some of the channels cross too. Messages take
/// whole nanoseconds but for the rounding of tenths, so that the last bit of a rate can be seen.
void share_ports_and_trunks(StepCase& of, RandomStream& random) {
  share_links(of, random);
  const auto ports = static_cast<int>(of.network.bytes_per_ns.size());
  for (std::int64_t trunk = random.between(1, 3); trunk > 0; --trunk)
    of.network.bytes_per_ns.push_back(static_cast<double>(random.between(4, 20)));
  for (Route& route : of.network.routes) {
    for (int link = ports; link < std::ssize(of.network.bytes_per_ns); ++link)
      if (random.below(2) == 0) route.links.push_back({.link = link});
    for (LinkUse& use : route.links) use.weight = 0.1 * static_cast<double>(random.between(1, 9));
  }
  for (Bytes& bytes : of.load.bytes)
    bytes.count *= 420;  // so that many sums of weights divide them
}

/// The same network with other numbers for its links, and those of a route in another order.
Network renumber_links(const Network& of, RandomStream& random) {
  Network other = of;
  const std::vector<int> number = draw_order(random, static_cast<int>(of.bytes_per_ns.size()));
  for (std::size_t link = 0; link < number.size(); ++link)
    other.bytes_per_ns[number[link]] = of.bytes_per_ns[link];
  for (Route& route : other.routes) {
    for (LinkUse& use : route.links) use.link = number[use.link];
    random.shuffle(std::span(route.links));
  }
  return other;
}

TEST(RenumberedStep, LinksUnderOtherNumbersTakeTheSameTimes) {
  int shared = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "renumbered links");
    draw_meetings(of, random);
    share_ports_and_trunks(of, random);
    const Network other = renumber_links(of.network, random);
    const StepTimes times = time_step(of.program, of.load, of.network);
    ASSERT_TRUE(are_equal(times, time_step(of.program, of.load, other))) << "seed " << seed;
    ASSERT_TRUE(are_equal(times, run_events(of.program, of.load, other))) << "seed " << seed;
    const StepTimes alone = run_longest_path(of.program, of.load, of.network);
    shared += find_contention(of.program, of.network, alone).empty() ? 0 : 1;
  }
  EXPECT_GT(shared, 300);
}

/// A step whose replicas have changed places: where lanes, channels, actions and messages of one
/// are found in the other.
class ExchangedReplicas {
 public:
  ExchangedReplicas(const StepProgram& program, RandomStream& random) {
    const auto& modules = program.pipeline().modules;
    std::vector<std::vector<int>> replica_of;  // [modules][replicas]
    for (const schedule::PipelineModule& module : modules)
      replica_of.push_back(draw_order(random, module.replicas));
    for (int lane = 0; lane < program.lanes(); ++lane) {
      schedule::Lane at = program.map().at(lane);
      at.replica = replica_of[at.module][at.replica];
      lane_of_.push_back(program.map().lane_of(at));
      for (int i = 0; i < program.first_action(lane + 1) - program.first_action(lane); ++i)
        action_of_.push_back(program.first_action(lane_of_.back()) + i);
    }
    std::map<std::tuple<schedule::Op, int, int, int>, int> index;
    const std::span channels = program.channels();
    for (int i = 0; i < std::ssize(channels); ++i)
      index[{channels[i].op, channels[i].from, channels[i].to, channels[i].edge}] = i;
    message_of_.resize(program.messages().size());
    for (const Channel& channel : channels) {
      channel_of_.push_back(
          index.at({channel.op, lane_of_[channel.from], lane_of_[channel.to], channel.edge}));
      for (int i = 0; i < channel.messages; ++i)
        message_of_[channel.first_message + i] = channels[channel_of_.back()].first_message + i;
    }
  }

  [[nodiscard]] StepLoad exchange(const StepLoad& of) const {
    return {.duration = move(of.duration, action_of_),
            .exposed = {},
            .bytes = move(of.bytes, message_of_),
            .begins = move(of.begins, lane_of_),
            .vacant = move(of.vacant, message_of_)};
  }
  [[nodiscard]] Network exchange(const Network& of) const {
    Network other = of;
    other.routes = move(of.routes, channel_of_);
    return other;
  }
  [[nodiscard]] StepTimes exchange(const StepTimes& of) const {
    StepTimes other = of;
    other.actions = move(of.actions, action_of_);
    other.messages = move(of.messages, message_of_);
    return other;
  }

 private:
  template <class T>
  static std::vector<T> move(const std::vector<T>& of, const std::vector<int>& to) {
    std::vector<T> moved(of.size());
    for (std::size_t i = 0; i < of.size(); ++i) moved[to[i]] = of[i];
    return moved;
  }

  std::vector<int> lane_of_;     // [lanes]
  std::vector<int> channel_of_;  // [channels]
  std::vector<int> action_of_;   // [actions]
  std::vector<int> message_of_;  // [messages]
};

TEST(RenumberedStep, ReplicasThatChangePlacesTakeTheirTimesAlong) {
  int several = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    StepCase of = draw_case(seed);
    RandomStream random(seed, "exchanged replicas");
    draw_meetings(of, random);
    share_ports_and_trunks(of, random);
    if (random.below(3) == 0) keep_features_in_a_pool(of, static_cast<int>(random.between(1, 3)));
    if (random.below(3) == 0) of.network.overlap_slowdown = 1.13;
    if (random.below(3) == 0) begin_as_left(of, random);
    const ExchangedReplicas exchanged(of.program, random);
    const StepLoad load = exchanged.exchange(of.load);
    const Network network = renumber_links(exchanged.exchange(of.network), random);
    const StepTimes expected = exchanged.exchange(time_step(of.program, of.load, of.network));
    ASSERT_TRUE(are_equal(time_step(of.program, load, network), expected)) << "seed " << seed;
    ASSERT_TRUE(are_equal(run_events(of.program, load, network), expected)) << "seed " << seed;
    for (const schedule::PipelineModule& module : of.program.pipeline().modules)
      several += module.replicas > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 200);
}

}  // namespace
}  // namespace tributary::simulate
