#include <algorithm>
#include <map>

#include "core/error.h"
#include "simulate/engine/event_queue.h"
#include "simulate/engine/fair_share.h"
#include "simulate/engine/flow_slots.h"
#include "simulate/engine/progress.h"
#include "simulate/engine/step_times.h"

namespace tributary::simulate {
namespace {

/// Runs each lane until it waits for an event, then goes to the next event.
class EventEngine {
 public:
  EventEngine(const StepProgram& program, const StepLoad& load, const Network& network,
              StepTimes& times)
      : program_(program),
        load_(load),
        network_(network),
        times_(times),
        slots_(program, network),
        links_(network.bytes_per_ns, slots_.routes(network)),
        lanes_(static_cast<std::size_t>(program.lanes())),
        flows_(slots_.count()),
        reductions_(program.reductions().size()),
        events_(program.lanes(), program.messages().size(), program.reductions().size()) {
    for (int i = 0; i < std::ssize(reductions_); ++i)
      for (const int before : program.reductions()[i].before)
        reductions_[before].after.push_back(i);
    for (int lane = 0; lane < program.lanes(); ++lane)
      lanes_[lane].beside = program.map().lanes_beside(lane);
    if (network.cores > 0)
      for (int lane = 0; lane < program.lanes(); ++lane)
        lanes_on_[network.machine[lane]].push_back(lane);
  }

  void run() {
    times_.actions.assign(static_cast<std::size_t>(program_.actions()), {});
    times_.messages.assign(program_.messages().size(), {});
    for (int lane = 0; lane < program_.lanes(); ++lane)
      lanes_[lane].next = program_.first_action(lane);
    for (int lane = 0; lane < program_.lanes(); ++lane) begin(lane);
    while (settle_rates(), !events_.empty()) {
      const Event event = events_.take();
      now_ = event.time();
      handle(event);
    }
    for (int lane = 0; lane < program_.lanes(); ++lane)
      if (lanes_[lane].next < program_.first_action(lane + 1))
        times_.blocked.push_back({.action = lanes_[lane].next, .message = lanes_[lane].waits_for});
  }

 private:
  struct LaneState {
    Progress pass;
    int next = 0;
    int waits_for = -1;
    int running = -1;    // action
    int reductions = 0;  // of the lane, in progress
    bool meets = false;
    double computes = 1;           // fraction of the running pass that computes
    double core_share = 1;         // fraction of these cores that it gets
    std::vector<int> beside = {};  // lanes on the same ranks
  };
  struct Flow {
    Progress bytes = {};
    int message = -1;
  };
  struct Reduction {
    std::size_t arrived = 0;
    std::vector<int> after = {};  // next reductions on the same stream
    bool ended = false;
  };

  void begin(int lane) {
    if (const Nanoseconds at = load_.begin_of(lane); at > now_) {
      events_.set({at, EventKind::kBegin, lane});
    } else {
      advance(lane);
    }
  }
  void handle(const Event& event) {
    switch (event.kind()) {
      case EventKind::kArrival:
        arrive(event.of());
        break;
      case EventKind::kFlowBegin:  // at once when a message is given and posted: no event of it
        TRIB_RAISE(Fault::kBug, .what = "simulate: engine has no such event",
                   .where = str("message ", event.of()));
      case EventKind::kFlowEnd:
        links_.remove(slots_.of(event.of()));
        push_arrival(event.of());
        break;
      case EventKind::kReductionEnd:
        end_reduction(event.of());
        break;
      case EventKind::kPassEnd:
        end_pass(event.of());
        break;
      case EventKind::kVacancy:
        wake(program_.channel_of(event.of()).from, event.of());
        break;
      case EventKind::kBegin:
        advance(event.of());
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

  /// Returns false when the lane has to wait: for a message, for other lanes, or for a pass to end.
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
    times.start = now_;
    end_action(times);
    return true;
  }

  /// The step ends with its last action: features for the step after may arrive later.
  void end_action(ActionTimes& action) { action.end = times_.makespan = now_; }

  static bool is_missing(Nanoseconds time, int message, LaneState& state) {
    if (time != kNever) return false;
    state.waits_for = message;
    return true;
  }
  bool lacks_buffer(int action, LaneState& state) {
    for (const int message : program_.messages_of(action)) {
      const auto [earlier, in_pool] = buffer_before(program_, network_, message);
      if (earlier < 0) {
        if (load_.vacant_at(message) <= now_) continue;
        state.waits_for = message;
        events_.set({load_.vacant_at(message), EventKind::kVacancy, message});
        return true;
      }
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

  /// Sets how much a pass computes: all but its collectives. During collectives a rank spins on its
  /// cores, so lanes that share them are held up as well.
  void demand_cores(int lane, int action) {
    if (network_.cores <= 0) return;
    const auto whole = static_cast<double>(load_.duration[action].count);
    const double exposed =
        load_.exposed.empty() ? 0 : static_cast<double>(load_.exposed[action].count);
    LaneState& state = lanes_[lane];
    state.computes = whole > 0 ? 1 - exposed / whole : 0;
    share_cores(lane);
  }
  /// Slows down all passes on a machine alike when they want more cores than it has. The caller
  /// sets the speed of the lane itself.
  void share_cores(int changed) {
    const std::vector<int>& lanes = lanes_on_.at(network_.machine[changed]);
    double demand = 0;
    for (const int lane : lanes)
      if (lanes_[lane].running >= 0) demand += network_.threads[lane];
    const double share = demand > network_.cores ? network_.cores / demand : 1;
    for (const int lane : lanes) {
      LaneState& state = lanes_[lane];
      if (state.running < 0) continue;
      const bool is_same = state.core_share == share;
      state.core_share = share;
      if (lane != changed && !is_same) change_speed(lane);
    }
  }

  void change_speed(int lane) {
    LaneState& state = lanes_[lane];
    double rate = state.reductions > 0 ? 1 / network_.overlap_slowdown : 1.0;
    if (state.core_share < 1) rate /= state.computes / state.core_share + 1 - state.computes;
    const Nanoseconds end = state.pass.change_rate(rate, now_);
    events_.set({end, EventKind::kPassEnd, lane});
  }
  void end_pass(int lane) {
    LaneState& state = lanes_[lane];
    end_action(times_.actions[state.running]);
    const int shared_step = state.meets ? program_.place_of_step(state.running) : -1;
    state.running = -1;
    state.meets = false;
    if (network_.cores > 0) share_cores(lane);
    ++state.next;
    if (shared_step >= 0) end_shared_step(static_cast<std::size_t>(shared_step));
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
    const int slot = slots_.of(message);
    flows_[slot] = {.bytes = {.left = static_cast<double>(bytes.count), .rate = 0, .since = now_},
                    .message = message};
    links_.add(slot);
  }
  /// Shares links once for everything that starts or ends at one instant.
  void settle_rates() {
    if (!events_.empty() && events_.next().time() == now_) return;
    for (const int slot : links_.settle()) {
      auto& [bytes, message] = flows_[slot];
      if (bytes.rate == links_.rate(slot)) continue;
      const Nanoseconds end = bytes.change_rate(links_.rate(slot), now_);
      events_.set({end, EventKind::kFlowEnd, message});
    }
  }
  void push_arrival(int message) {
    events_.set({now_ + route_of(message).latency, EventKind::kArrival, message});
  }
  void arrive(int message) {
    times_.messages[message].arrived = now_;
    const Channel& channel = program_.channel_of(message);
    wake(channel.from, message);
    wake(channel.to, message);
  }
  void take(int message) {
    times_.messages[message].taken = now_;
    wake(program_.channel_of(message).from, message);
  }

  // ---- meetings ----

  void join_reduction(int index) {
    ++open_reductions_;
    ++reductions_[index].arrived;
    start_reduction_when_it_can(index);
  }
  void start_reduction_when_it_can(int index) {
    const StepMeeting& meeting = program_.reductions()[index];
    const bool is_free = std::all_of(meeting.before.begin(), meeting.before.end(),
                                     [this](int before) { return reductions_[before].ended; });
    if (!is_free || reductions_[index].arrived < meeting.members.size()) return;
    Nanoseconds longest;
    for (const int member : meeting.members) {
      longest = std::max(longest, load_.duration[member]);
      times_.actions[member].start = now_;
      set_reducing(program_.lane_of(member), 1);
    }
    events_.set({now_ + longest, EventKind::kReductionEnd, index});
  }
  void set_reducing(int lane, int change) {
    const auto change_on = [&](int on) {
      lanes_[on].reductions += change;
      if (lanes_[on].running >= 0 && network_.overlap_slowdown > 1) change_speed(on);
    };
    change_on(lane);
    for (const int beside : lanes_[lane].beside) change_on(beside);
  }
  void end_reduction(int index) {
    reductions_[index].ended = true;
    for (const int member : program_.reductions()[index].members) {
      --open_reductions_;
      end_action(times_.actions[member]);
      set_reducing(program_.lane_of(member), -1);
    }
    for (const int after : reductions_[index].after) start_reduction_when_it_can(after);
    start_step_when_all_are_there();
  }
  void start_step_when_all_are_there() {
    if (arrived_ < program_.step().members.size() || open_reductions_ > 0) return;
    for (const int member : program_.step().members)
      if (program_.place_of_step(member) < 0) start_pass(program_.lane_of(member), member);
    start_shared_steps(0);
  }
  void start_shared_steps(std::size_t place) {
    if (place == program_.shared_steps().size()) return;
    const std::vector<int>& of_module = program_.shared_steps()[place];
    left_of_shared_ = of_module.size();
    for (const int member : of_module) start_pass(program_.lane_of(member), member);
  }
  void end_shared_step(std::size_t place) {
    if (--left_of_shared_ == 0) start_shared_steps(place + 1);
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const Network& network_;
  StepTimes& times_;
  FlowSlots slots_;
  FairShare links_;
  std::vector<LaneState> lanes_;
  std::map<int, std::vector<int>> lanes_on_;  // by machine, where its lanes share cores
  std::vector<Flow> flows_;                   // [slots]
  std::vector<Reduction> reductions_;
  EventQueue events_;
  Nanoseconds now_;
  std::size_t arrived_ = 0;         // lanes at the optimizer step
  std::size_t left_of_shared_ = 0;  // steps of the module whose turn it is
  int open_reductions_ = 0;
};

}  // namespace

StepTimes run_events(const StepProgram& program, const StepLoad& load, const Network& network) {
  StepTimes times;
  EventEngine(program, load, network, times).run();
  return times;
}

}  // namespace tributary::simulate
