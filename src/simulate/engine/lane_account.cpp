#include "simulate/engine/lane_account.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tributary::simulate {
namespace {

using schedule::Op;

constexpr std::array<std::string_view, kTimeUses> kNames{
    "compute",       "optimizer",     "collective",
    "transfer",      "reduction",     "wait_activation",
    "wait_gradient", "wait_features", "wait_feature_gradients",
    "back_pressure", "wait_replicas", "other_module",
    "done",          "wait_plan"};

TimeUse wait_of(Op send) {
  switch (send) {
    case Op::kSendActivation:
      return TimeUse::kWaitActivation;
    case Op::kSendGradient:
      return TimeUse::kWaitGradient;
    case Op::kSendFeatures:
      return TimeUse::kWaitFeatures;
    default:
      return TimeUse::kWaitFeatureGradients;
  }
}

/// When the ranks of a lane run another module: passes and steps of the lanes on the same ranks.
class OtherWork {
 public:
  OtherWork(const StepProgram& program, const StepTimes& times, int lane) {
    for (const int beside : program.map().lanes_beside(lane)) {
      for (int action = program.first_action(beside); action < program.first_action(beside + 1);
           ++action) {
        const StepKind kind = program.kind(action);
        const ActionTimes& at = times.actions[action];
        if ((kind == StepKind::kPass || kind == StepKind::kOptimize) && at.end > at.start)
          spans_.push_back({at.start, at.end});
      }
    }
    std::sort(spans_.begin(), spans_.end());
  }

  /// The part of an interval in which they do; intervals must not go back in time.
  [[nodiscard]] Nanoseconds between(Nanoseconds from, Nanoseconds until) {
    Nanoseconds sum;
    for (; next_ < spans_.size() && spans_[next_].first < until; ++next_) {
      const Nanoseconds begin = std::max(from, spans_[next_].first);
      const Nanoseconds end = std::min(until, spans_[next_].second);
      if (end > begin) sum += end - begin;
      from = std::max(from, end);
      if (spans_[next_].second > until) break;
    }
    return sum;
  }

 private:
  std::vector<std::pair<Nanoseconds, Nanoseconds>> spans_;
  std::size_t next_ = 0;
};

/// Builds the account of one lane.
class LaneClock {
 public:
  LaneClock(const StepProgram& program, const StepLoad& load, const StepTimes& times, int lane)
      : program_(program), load_(load), times_(times), lane_(lane), other_(program, times, lane) {}

  LaneAccount run() {
    for (int action = program_.first_action(lane_); action < program_.first_action(lane_ + 1);
         ++action)
      spend(action);
    spend_until(times_.makespan, TimeUse::kDone);
    return account_;
  }

 private:
  void spend(int action) {
    const ActionTimes& at = times_.actions[action];
    switch (program_.kind(action)) {
      case StepKind::kPass: {
        if (at.start > clock_) wait_for_messages(action);
        const Nanoseconds exposed = load_.exposed.empty()
                                        ? Nanoseconds{}
                                        : std::min(load_.exposed[action], at.end - at.start);
        account_[TimeUse::kCollective] += exposed;
        account_[TimeUse::kCompute] += at.end - at.start - exposed;
        clock_ = at.end;
        break;
      }
      case StepKind::kSend:
        spend_until(at.start, TimeUse::kBackPressure);
        break;
      case StepKind::kOptimize:
        wait_for_step(action);
        spend_until(at.end, TimeUse::kOptimizer);
        break;
      case StepKind::kReceive:
      case StepKind::kReduce:
      case StepKind::kHand:
        break;
    }
  }

  void spend_until(Nanoseconds until, TimeUse use) {
    if (until <= clock_) return;
    const Nanoseconds other =
        use == TimeUse::kOptimizer ? Nanoseconds{} : other_.between(clock_, until);
    account_[TimeUse::kOtherModule] += other;
    account_[use] += until - clock_ - other;
    clock_ = until;
  }

  /// Behind the work of the other module on its ranks, a turn waits for what that one waits for.
  [[nodiscard]] TimeUse reason_of(Op send) const {
    if (send != Op::kSendTurn) return wait_of(send);
    return program_.map().is_colocated(lane_) ? TimeUse::kWaitFeatureGradients
                                              : TimeUse::kWaitFeatures;
  }

  /// Accounts for waiting, in order of arrival: until a message begins, the sender is late.
  void wait_for_messages(int action) {
    std::vector<int> messages;
    for (const int message : program_.messages_of(action))
      if (times_.messages[message].arrived > clock_) messages.push_back(message);
    std::sort(messages.begin(), messages.end(), [this](int a, int b) {
      return std::pair(times_.messages[a].arrived, a) < std::pair(times_.messages[b].arrived, b);
    });
    for (const int message : messages) {
      const Channel& channel = program_.channel_of(message);
      spend_until(times_.messages[message].begun(), reason_of(channel.op));
      spend_until(times_.messages[message].arrived, TimeUse::kTransfer);
    }
  }

  /// Accounts for waiting at the step: first for its own reductions, then for other lanes.
  void wait_for_step(int action) {
    for (int other = program_.first_action(lane_); other < action; ++other) {
      if (program_.kind(other) != StepKind::kReduce) continue;
      spend_until(times_.actions[other].start, TimeUse::kWaitReplicas);
      spend_until(times_.actions[other].end, TimeUse::kReduction);
    }
    spend_until(times_.actions[action].start, TimeUse::kWaitReplicas);
  }

  const StepProgram& program_;
  const StepLoad& load_;
  const StepTimes& times_;
  int lane_;
  OtherWork other_;
  Nanoseconds clock_;
  LaneAccount account_;
};

}  // namespace

std::string_view name_of(TimeUse use) { return kNames[static_cast<std::size_t>(use)]; }

TimeClass class_of(TimeUse use) {
  if (use <= TimeUse::kOptimizer) return TimeClass::kBusy;
  return use <= TimeUse::kReduction ? TimeClass::kCommunication : TimeClass::kIdle;
}

Nanoseconds LaneAccount::total(TimeClass of) const {
  Nanoseconds sum;
  for (std::size_t use = 0; use < kTimeUses; ++use)
    if (class_of(static_cast<TimeUse>(use)) == of) sum += time[use];
  return sum;
}

Nanoseconds LaneAccount::total() const {
  Nanoseconds sum;
  for (const Nanoseconds each : time) sum += each;
  return sum;
}

LaneAccount& LaneAccount::operator+=(const LaneAccount& other) {
  for (std::size_t use = 0; use < kTimeUses; ++use) time[use] += other.time[use];
  return *this;
}

std::vector<LaneAccount> account_lanes(const StepProgram& program, const StepLoad& load,
                                       const StepTimes& times) {
  TRIB_CHECK(times.blocked.empty(), .what = "simulate: step that never ends has no account",
             .found = describe_blocked(program, times));
  std::vector<LaneAccount> accounts;
  for (int lane = 0; lane < program.lanes(); ++lane)
    accounts.push_back(LaneClock(program, load, times, lane).run());
  return accounts;
}

double RanksAccount::share(TimeClass of) const {
  if (time.count <= 0) return 0;
  const auto part = [&](Nanoseconds each) {
    return static_cast<double>(each.count) / static_cast<double>(time.count);
  };
  if (of != TimeClass::kIdle) return part(uses.total(of));
  const Nanoseconds worked = uses.total(TimeClass::kBusy) + uses.total(TimeClass::kCommunication);
  return std::clamp(part(time - worked), 0.0, 1.0);
}

RanksAccount account_ranks(const schedule::PipelineMap& map, std::span<const LaneAccount> accounts,
                           std::span<const std::int64_t> ranks) {
  RanksAccount all;
  for (int lane = 0; lane < std::ssize(accounts); ++lane) {
    if (!map.is_colocated(lane)) all.time += accounts[lane].total() * ranks[lane];
    for (std::size_t use = 0; use < kTimeUses; ++use)
      if (static_cast<TimeUse>(use) != TimeUse::kOtherModule)
        all.uses.time[use] += accounts[lane].time[use] * ranks[lane];
  }
  return all;
}

}  // namespace tributary::simulate
