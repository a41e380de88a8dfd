#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "core/error.h"
#include "plan/simulate/fair_share.h"
#include "plan/simulate/step_times.h"

namespace tributary::plan {
namespace {

enum class EventKind : int { kArrival, kFlowEnd, kReductionEnd, kPassEnd };

struct Event {
  Nanoseconds time;
  EventKind kind;
  int of;       // message, reduction or lane
  int version;  // an event of an older version was replaced

  bool operator>(const Event& other) const {
    return std::tie(time, kind, of, version) >
           std::tie(other.time, other.kind, other.of, other.version);
  }
};

/// Runs lanes until each waits for an event, then goes on to the next event.
class EventEngine {
 public:
  EventEngine(const StepProgram& program, const StepLoad& load, const Network& network)
      : program_(program),
        load_(load),
        network_(network),
        links_(network.bytes_per_ns),
        lanes_(static_cast<std::size_t>(program.lanes())),
        flows_(program.messages().size()),
        reductions_(program.reductions().size()) {
    times_.actions.resize(static_cast<std::size_t>(program.actions()));
    times_.messages.resize(program.messages().size());
    for (int i = 0; i < std::ssize(reductions_); ++i)
      if (const int before = program.reductions()[i].before; before >= 0)
        reductions_[before].after = i;
  }

  StepTimes run() {
    for (int lane = 0; lane < program_.lanes(); ++lane)
      lanes_[lane].next = program_.first_action(lane);
    for (int lane = 0; lane < program_.lanes(); ++lane) advance(lane);
    while (settle_rates(), !events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.version != version_of(event)) continue;
      now_ = event.time;
      handle(event);
    }
    for (int lane = 0; lane < program_.lanes(); ++lane)
      if (lanes_[lane].next < program_.first_action(lane + 1))
        times_.blocked.push_back({.action = lanes_[lane].next, .message = lanes_[lane].waits_for});
    times_.makespan = now_;
    return std::move(times_);
  }

 private:
  /// Work that is under way at some rate: a flow of bytes or a pass of nanoseconds.
  struct Progress {
    double left = 0;
    double rate = 0;
    Nanoseconds since;
    int version = 0;

    /// When it ends, if the rate stays.
    Nanoseconds change_rate(double new_rate, Nanoseconds now) {
      left = std::max(0.0, left - rate * static_cast<double>((now - since).count));
      rate = new_rate;
      since = now;
      ++version;
      return now + Nanoseconds{static_cast<std::int64_t>(std::ceil(left / rate))};
    }
  };
  struct LaneState {
    Progress pass;
    int next = 0;
    int waits_for = -1;
    int running = -1;    // action
    int reductions = 0;  // of the lane, under way
    bool meets = false;
    double computes = 1;    // part of the running pass
    double demand = 0;      // cores that it would keep busy
    double core_share = 1;  // of them that it gets
  };
  struct Reduction {
    std::size_t arrived = 0;
    int after = -1;  // next on the same stream
    bool ended = false;
  };

  [[nodiscard]] int version_of(const Event& event) const {
    if (event.kind == EventKind::kFlowEnd) return flows_[event.of].version;
    return event.kind == EventKind::kPassEnd ? lanes_[event.of].pass.version : 0;
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case EventKind::kArrival:
        arrive(event.of);
        break;
      case EventKind::kFlowEnd:
        links_.remove(event.of);
        push_arrival(event.of);
        break;
      case EventKind::kReductionEnd:
        end_reduction(event.of);
        break;
      case EventKind::kPassEnd:
        end_pass(event.of);
        break;
    }
  }

  // ---- lanes ----

  void advance(int lane) {
    LaneState& state = lanes_[lane];
    if (state.running >= 0 || state.meets) return;
    for (; state.next < program_.first_action(lane + 1); ++state.next) {
      ActionTimes& times = times_.actions[state.next];
      if (times.reached == kNever) times.reached = now_;
      if (!perform(state.next, lane, times)) return;
    }
  }

  /// False when the lane has to wait: for a message, for others, or for the end of a pass.
  bool perform(int action, int lane, ActionTimes& times) {
    LaneState& state = lanes_[lane];
    const auto messages = program_.messages_of(action);
    switch (program_.kind(action)) {
      case StepKind::kPass:
        for (const int message : messages)
          if (is_missing(times_.messages[message].arrived, message, state)) return false;
        start_pass(lane, action);
        for (const int message : messages) take(message);
        return false;
      case StepKind::kSend:
        if (lacks_buffer(action, state)) return false;
        for (const int message : messages) give(message);
        break;
      case StepKind::kReceive:
        for (const int message : messages) post(message);
        break;
      case StepKind::kReduce:
        join_reduction(program_.reduction_of(action));
        return true;
      case StepKind::kOptimize:
        state.meets = true;
        ++arrived_;
        start_step_when_all_are_there();
        return false;
      case StepKind::kHand:
        break;
    }
    times.start = times.end = now_;
    return true;
  }

  static bool is_missing(Nanoseconds time, int message, LaneState& state) {
    if (time != kNever) return false;
    state.waits_for = message;
    return true;
  }
  bool lacks_buffer(int action, LaneState& state) const {
    for (const int message : program_.messages_of(action)) {
      const auto [earlier, in_pool] = buffer_before(program_, network_, message);
      if (earlier < 0) continue;
      if (is_missing(times_.messages[earlier].freed(in_pool), earlier, state)) return true;
    }
    return false;
  }

  void start_pass(int lane, int action) {
    LaneState& state = lanes_[lane];
    state.running = action;
    times_.actions[action].start = now_;
    state.pass.left = static_cast<double>(load_.duration[action].count);
    state.pass.rate = 0;
    state.pass.since = now_;
    demand_cores(lane, action);
    change_speed(lane);
  }

  // ---- cores ----

  /// Threads that a pass keeps busy on average: it computes but for its collectives.
  void demand_cores(int lane, int action) {
    if (network_.cores <= 0) return;
    const auto whole = static_cast<double>(load_.duration[action].count);
    const double exposed =
        load_.exposed.empty() ? 0 : static_cast<double>(load_.exposed[action].count);
    LaneState& state = lanes_[lane];
    state.computes = whole > 0 ? 1 - exposed / whole : 0;
    state.demand = network_.threads[lane] * state.computes;
    share_cores(network_.machine[lane], lane);
  }
  /// Every pass on the machine slows down alike when they ask for more cores than there are.
  void share_cores(int machine, int changed) {
    double demand = 0;
    for (int lane = 0; lane < program_.lanes(); ++lane)
      if (network_.machine[lane] == machine && lanes_[lane].running >= 0)
        demand += lanes_[lane].demand;
    const double share = demand > network_.cores ? network_.cores / demand : 1;
    for (int lane = 0; lane < program_.lanes(); ++lane) {
      LaneState& state = lanes_[lane];
      if (network_.machine[lane] != machine || state.running < 0) continue;
      const bool is_same = state.core_share == share;
      state.core_share = share;
      if (lane != changed && !is_same) change_speed(lane);
    }
  }

  void change_speed(int lane) {
    LaneState& state = lanes_[lane];
    double rate = state.reductions > 0 ? 1 / network_.overlap_slowdown : 1.0;
    if (network_.cores > 0) rate /= state.computes / state.core_share + 1 - state.computes;
    const Nanoseconds end = state.pass.change_rate(rate, now_);
    events_.push({end, EventKind::kPassEnd, lane, state.pass.version});
  }
  void end_pass(int lane) {
    LaneState& state = lanes_[lane];
    ++state.pass.version;
    times_.actions[state.running].end = now_;
    state.running = -1;
    state.meets = false;
    if (network_.cores > 0) share_cores(network_.machine[lane], lane);
    ++state.next;
    advance(lane);
  }
  void wake(int lane, int message) {
    if (lanes_[lane].waits_for != message) return;
    lanes_[lane].waits_for = -1;
    advance(lane);
  }

  // ---- messages ----

  [[nodiscard]] const Route& route_of(int message) const {
    return network_.routes[program_.messages()[message].channel];
  }
  void give(int message) {
    times_.messages[message].given = now_;
    if (route_of(message).capacity > 0) times_.messages[message].posted = now_;
    if (times_.messages[message].posted != kNever) start_flow(message);
  }
  void post(int message) {
    if (route_of(message).capacity > 0) return;
    times_.messages[message].posted = now_;
    if (times_.messages[message].given != kNever) start_flow(message);
  }
  void start_flow(int message) {
    const Bytes bytes = load_.bytes_of(program_, message);
    if (route_of(message).bytes_per_ns <= 0 || bytes.count == 0) return push_arrival(message);
    flows_[message].left = static_cast<double>(bytes.count);
    flows_[message].since = now_;
    links_.add(message, route_of(message));
  }
  /// Shares the links once for all that starts and ends at one instant.
  void settle_rates() {
    if (!events_.empty() && events_.top().time == now_) return;
    for (const int flow : links_.settle()) {
      Progress& progress = flows_[flow];
      if (progress.rate == links_.rate(flow)) continue;
      const Nanoseconds end = progress.change_rate(links_.rate(flow), now_);
      events_.push({end, EventKind::kFlowEnd, flow, progress.version});
    }
  }
  void push_arrival(int message) {
    events_.push({now_ + route_of(message).latency, EventKind::kArrival, message, 0});
  }
  void arrive(int message) {
    times_.messages[message].arrived = now_;
    const Channel& channel = program_.channels()[program_.messages()[message].channel];
    wake(channel.from, message);
    wake(channel.to, message);
  }
  void take(int message) {
    times_.messages[message].taken = now_;
    wake(program_.channels()[program_.messages()[message].channel].from, message);
  }

  // ---- meetings ----

  void join_reduction(int index) {
    ++open_reductions_;
    ++reductions_[index].arrived;
    start_reduction_when_it_can(index);
  }
  void start_reduction_when_it_can(int index) {
    const StepMeeting& meeting = program_.reductions()[index];
    const bool is_free = meeting.before < 0 || reductions_[meeting.before].ended;
    if (!is_free || reductions_[index].arrived < meeting.members.size()) return;
    Nanoseconds longest;
    for (const int member : meeting.members) {
      longest = std::max(longest, load_.duration[member]);
      times_.actions[member].start = now_;
      set_reducing(program_.lane_of(member), 1);
    }
    events_.push({now_ + longest, EventKind::kReductionEnd, index, 0});
  }
  void set_reducing(int lane, int change) {
    LaneState& state = lanes_[lane];
    state.reductions += change;
    if (state.running >= 0 && network_.overlap_slowdown > 1) change_speed(lane);
  }
  void end_reduction(int index) {
    reductions_[index].ended = true;
    for (const int member : program_.reductions()[index].members) {
      --open_reductions_;
      times_.actions[member].end = now_;
      set_reducing(program_.lane_of(member), -1);
    }
    if (reductions_[index].after >= 0) start_reduction_when_it_can(reductions_[index].after);
    start_step_when_all_are_there();
  }
  void start_step_when_all_are_there() {
    if (arrived_ < program_.step().members.size() || open_reductions_ > 0) return;
    for (const int member : program_.step().members) start_pass(program_.lane_of(member), member);
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  FairShare links_;
  std::vector<LaneState> lanes_;
  std::vector<Progress> flows_;  // [messages]
  std::vector<Reduction> reductions_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Nanoseconds now_;
  std::size_t arrived_ = 0;  // at the optimizer step
  int open_reductions_ = 0;
  StepTimes times_;
};

}  // namespace

StepTimes run_events(const StepProgram& program, const StepLoad& load, const Network& network) {
  return EventEngine(program, load, network).run();
}

StepTimes time_step(const StepProgram& program, const StepLoad& load, const Network& network) {
  check_load(program, load, network);
  return network.is_unshared() ? run_longest_path(program, load, network)
                               : run_events(program, load, network);
}

std::string describe_blocked(const StepProgram& program, const StepTimes& times) {
  std::string text;
  for (const BlockedAction& each : times.blocked) {
    text += str(text.empty() ? "" : "; ", describe(program, each.action), " waits for ");
    if (each.message < 0) {
      text += "the other lanes";
      continue;
    }
    const Message& message = program.messages()[each.message];
    const int other = program.kind(each.action) == StepKind::kPass ? message.send : message.receive;
    text += other < 0 ? "what no list has" : describe(program, other);
  }
  return text;
}

}  // namespace tributary::plan
