#include "simulate/engine/event_queue.h"
#include "simulate/engine/fair_share.h"
#include "simulate/engine/flow_slots.h"
#include "simulate/engine/lane_walk.h"
#include "simulate/engine/progress.h"

namespace tributary::simulate {
namespace {

/// Messages that share links affect each other's time, so they begin and end in the order of time,
/// although lanes run as far ahead as they get.
class SharedWays {
 public:
  SharedWays(const StepProgram& program, const StepLoad& load, const Network& network,
             StepTimes& times)
      : program_(program),
        load_(load),
        network_(network),
        times_(times),
        slots_(program, network),
        links_(network.bytes_per_ns, slots_.routes(network)),
        flows_(slots_.count()),
        events_(0, slots_.count(), 0),
        walk_(program, load, network, *this, times) {}

  void run(const std::vector<int>& lanes) {
    for (const int lane : lanes) forget_times(lane);
    walk_.start(lanes);
    while (!events_.empty()) {
      const Nanoseconds now = events_.next().time();
      while (!events_.empty() && events_.next().time() == now) handle(events_.take());
      settle_rates(now);
    }
  }

  Nanoseconds begin(int message, int channel, Nanoseconds now) {
    const Route& route = network_.routes[channel];
    const Bytes bytes = load_.bytes_of(program_, message);
    if (route.links.empty() || bytes.count == 0) return now + travel_time(route, bytes);
    const int slot = slots_.of(message);
    flows_[slot] = {.bytes = {.left = static_cast<double>(bytes.count), .rate = 0, .since = now},
                    .message = message,
                    .latency = route.latency};
    events_.set({now, EventKind::kFlowBegin, slot});
    return kNever;
  }

 private:
  struct Flow {
    Progress bytes = {};
    int message = -1;
    Nanoseconds latency = {};
  };

  void forget_times(int lane) {
    for (int action = program_.first_action(lane); action < program_.first_action(lane + 1);
         ++action) {
      times_.actions[action] = {};
      if (program_.kind(action) != StepKind::kSend) continue;
      for (const int message : program_.messages_of(action)) times_.messages[message] = {};
    }
  }
  void handle(const Event& event) {
    const int slot = event.of();
    if (event.kind() == EventKind::kFlowBegin) return links_.add(slot);
    links_.remove(slot);
    walk_.arrive(flows_[slot].message, event.time() + flows_[slot].latency);
  }
  /// Shares links once for everything that begins or ends at one instant.
  void settle_rates(Nanoseconds now) {
    for (const int slot : links_.settle()) {
      const double rate = links_.rate(slot);
      if (flows_[slot].bytes.rate == rate) continue;
      events_.set({flows_[slot].bytes.change_rate(rate, now), EventKind::kFlowEnd, slot});
    }
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  StepTimes& times_;
  FlowSlots slots_;
  FairShare links_;
  std::vector<Flow> flows_;  // [slots]
  EventQueue events_;
  LaneWalk<SharedWays> walk_;
};

}  // namespace

void rerun_groups(const StepProgram& program, const StepLoad& load, const Network& network,
                  const std::vector<std::vector<int>>& groups, StepTimes& times) {
  SharedWays ways(program, load, network, times);
  for (const std::vector<int>& lanes : groups) ways.run(lanes);
}

}  // namespace tributary::simulate
