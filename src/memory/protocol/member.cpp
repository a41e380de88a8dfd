#include "memory/protocol/member.h"

#include <utility>

namespace tributary::memory {

void acknowledge(const MessageReceived& event, std::vector<Action>& actions) {
  actions.push_back(Send{.to = event.from.process, .message = ack_of(event.message)});
}

Member::Member(const MemberIdentity& identity, const Timers& timers, PageTable table)
    : identity_(identity), timers_(timers), table_(std::move(table)), outbox_(timers.resend) {}

bool Member::take(const MessageReceived& event, TimePoint now, std::vector<Action>& actions) {
  // A process that joins has to get its epoch in time: a controller that gave it up in between
  // tells it nothing that it could not also hear about the process before it.
  if (event.from.process == identity_.controller && identity_.epoch != 0) heard_controller_ = now;
  const FrameType type = type_of(event.message);
  if ((type == FrameType::kEpoch || type == FrameType::kFail) &&
      event.from.role != Role::kController) {
    ++refused_;
    return true;
  }
  if (const auto* epoch = std::get_if<EpochMessage>(&event.message)) {
    acknowledge(event, actions);
    take_epoch(*epoch, actions);
    if (identity_.epoch != 0) heard_controller_ = now;
    return false;  // owners drop leases, readers drop handles
  }
  if (event.from.epoch < table_.epoch_of(event.from.process)) {
    ++refused_;
    if (const auto* get = std::get_if<GetRequest>(&event.message))
      actions.push_back(
          SendObject{.to = event.from.process,
                     .reply = {.request = get->request,
                               .status = static_cast<std::uint32_t>(Status::kEpoch)}});
    return true;
  }
  if (const auto* ack = std::get_if<AckMessage>(&event.message)) {
    outbox_.acknowledge(event.from.process, *ack);
    return true;
  }
  if (const auto* fail = std::get_if<FailMessage>(&event.message)) {
    stop(static_cast<ExitCode>(fail->fault), fail->text, actions);
    return true;
  }
  return false;
}

void Member::take_epoch(const EpochMessage& message, std::vector<Action>& actions) {
  const Result<bool> applied = table_.apply(message);
  if (!applied) {
    stop(ExitCode::kBug, applied.refusal().reason, actions);
    return;
  }
  if (!applied.value() || message.process != identity_.process) return;
  const bool is_own =
      !message.rows.empty() && message.rows.front().incarnation == identity_.incarnation;
  if (identity_.epoch == 0 && is_own) {
    identity_.epoch = message.epoch;
  } else if (identity_.epoch != 0) {
    stop(ExitCode::kFenced,
         str("memory: epoch ", identity_.epoch, " of process ", identity_.process,
             " is old, the controller is at ", message.epoch),
         actions);
  }
}

void Member::send_heartbeat(TimePoint now, std::vector<Action>& actions) {
  last_heartbeat_ = now;
  actions.push_back(Send{.to = identity_.controller,
                         .message = Heartbeat{.step = step,
                                              .progress = progress,
                                              .process = identity_.process,
                                              .epoch = identity_.epoch,
                                              .busy_ms = busy_ms,
                                              .blocked_ms = blocked_ms,
                                              .leaves = leaves ? 1U : 0U}});
}

void Member::renew_link(TimePoint now, std::vector<Action>& actions) {
  send_heartbeat(now, actions);
  outbox_.resend_all(identity_.controller, now, actions);
}

void Member::tick(TimePoint now, std::vector<Action>& actions) {
  if (!std::exchange(has_started_, true)) {
    heard_controller_ = now;
    send_heartbeat(now, actions);
  }
  if (now - heard_controller_ > timers_.lost) {
    stop(ExitCode::kPeerLost,
         identity_.epoch == 0 ? "memory: the controller gives no epoch"
                              : "memory: the controller is silent",
         actions);
    return;
  }
  if (now - last_heartbeat_ >= timers_.heartbeat) send_heartbeat(now, actions);
  outbox_.resend(now, actions);
}

void Member::stop(ExitCode code, std::string reason, std::vector<Action>& actions) {
  if (std::exchange(stopped_, true)) return;
  actions.push_back(StopProcess{.code = code, .reason = std::move(reason)});
}

}  // namespace tributary::memory
