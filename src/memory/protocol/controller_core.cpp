#include "memory/protocol/controller_core.h"

#include <algorithm>
#include <utility>

namespace tributary::memory {

ControllerCore::ControllerCore(const ControllerConfig& config, PageTable table, TimePoint now)
    : config_(config),
      membership_(config.timers, std::move(table), config.members, now, config.first_lender),
      outbox_(config.timers.resend),
      book_(config.reserve_pages),
      low_(config.first_step),
      planned_end_(config.first_step) {
  for (const PeerIdentity& member : config.members)
    granted_[member.process] = {.epoch = member.epoch};
}

std::vector<Action> ControllerCore::step(const Event& event, TimePoint now) {
  actions_.clear();
  if (stopped_) return {};
  if (const auto* message = std::get_if<MessageReceived>(&event)) take(*message, now);
  if (const auto* lost = std::get_if<MemberLost>(&event)) take(*lost, now);
  if (const auto* renewed = std::get_if<LinkRenewed>(&event))
    outbox_.resend_all(renewed->process, now, actions_);
  if (const auto* planned = std::get_if<StepPlanned>(&event)) take(*planned);
  if (const auto* logged = std::get_if<PlanLogged>(&event)) take(*logged, now);
  if (const auto* joined = std::get_if<MemberJoined>(&event)) take(*joined, now);
  if (std::holds_alternative<Tick>(event)) tick(now);
  return std::exchange(actions_, {});
}

void ControllerCore::take(const MessageReceived& event, TimePoint now) {
  const std::uint16_t from = event.from.process;
  if (const auto* join = std::get_if<JoinMessage>(&event.message))
    return take(MemberJoined{.identity = event.from, .rows = join->rows}, now);
  if (!membership_.is_current(event.from)) {
    // A process that was fenced while it slept learns it from this; one that joins, its epoch. An
    // ACK is not answered: it would be acknowledged in turn, without end.
    if (membership_.find(from) != nullptr && !std::holds_alternative<AckMessage>(event.message))
      actions_.push_back(Send{.to = from, .message = membership_.epoch_of(from)});
    if (event.from.epoch != 0) ++refused_;
    return;
  }
  if (const auto* heartbeat = std::get_if<Heartbeat>(&event.message)) take(event, *heartbeat, now);
  if (const auto* ack = std::get_if<AckMessage>(&event.message)) outbox_.acknowledge(from, *ack);
  if (const auto* publish = std::get_if<PublishMessage>(&event.message)) take(event, *publish, now);
  if (const auto* retract = std::get_if<RetractMessage>(&event.message)) take(event, *retract);
  if (const auto* resolve = std::get_if<ResolveMessage>(&event.message)) take(event, *resolve);
  if (const auto* fail = std::get_if<FailMessage>(&event.message)) take(*fail, now);
  if (std::holds_alternative<ByeMessage>(event.message)) take_bye(event.from, now);
}

void ControllerCore::take(const MessageReceived& event, const Heartbeat& heartbeat, TimePoint now) {
  acknowledge(event, actions_);
  membership_.take(heartbeat, event.from.process, now);
  commit_finished_steps(now);
}

void ControllerCore::take(const MessageReceived& event, const PublishMessage& publish,
                          TimePoint now) {
  const ObjectHandle& handle = publish.handle;
  if (handle.fields.process != event.from.process || handle.fields.epoch != event.from.epoch ||
      !membership_.table().binds(handle)) {
    ++refused_;
    actions_.push_back(ClosePeer{.process = event.from.process,
                                 .reason = "memory: PUBLISH of an object in foreign memory"});
    return;
  }
  acknowledge(event, actions_);
  if (ObjectRecord* record = book_.publish(handle)) send_handle(*record, now);
}

void ControllerCore::send_handle(ObjectRecord& record, TimePoint now) {
  record.sequence = ++sequences_;
  for (const std::uint16_t reader : record.readers)
    if (membership_.find(reader)->is_in())
      outbox_.post(reader, PublishMessage{.sequence = record.sequence, .handle = *record.handle},
                   now, actions_);
}

void ControllerCore::take(const MessageReceived& event, const RetractMessage& retract) {
  acknowledge(event, actions_);
  book_.retract(event.from.process, retract);
}

void ControllerCore::take(const MessageReceived& event, const ResolveMessage& resolve) {
  ObjectRecord* record = book_.find(resolve.key);
  if (record == nullptr) return;
  // An owner that asks is told as soon as there is something to tell.
  if (!std::ranges::count(record->readers, event.from.process))
    record->readers.push_back(event.from.process);
  if (!record->handle || record->sequence <= resolve.sequence) return;
  actions_.push_back(
      Send{.to = event.from.process,
           .message = PublishMessage{.sequence = record->sequence, .handle = *record->handle}});
}

bool ControllerCore::is_replaceable(const PeerIdentity& member) const {
  return member.role == Role::kProducer && member.process < config_.first_lender;
}

void ControllerCore::take(const FailMessage& fail, TimePoint now) {
  const MemberRecord* named = membership_.find(static_cast<std::uint16_t>(fail.process));
  const bool is_echo = fail.fault == static_cast<std::uint32_t>(ExitCode::kPeerLost);
  if (is_echo && named != nullptr && is_replaceable(named->identity)) {
    lose(named->identity.process, fail.text, now);
    return;
  }
  if (!failed_) failed_ = now;
  if (!root_cause_ ||
      cause_order(static_cast<int>(fail.fault)) < cause_order(static_cast<int>(root_cause_->fault)))
    root_cause_ = fail;
}

void ControllerCore::take(const StepPlanned& event) {
  TRIB_CHECK(event.plan.step == planned_end_, .what = "memory: steps are planned out of order",
             .found = str("step ", event.plan.step), .expected = str("step ", planned_end_));
  ++planned_end_;
  unlogged_[event.plan.step] = event;
  actions_.push_back(LogPlan{.plan = event.plan});
}

void ControllerCore::take(const PlanLogged& event, TimePoint now) {
  const auto node = unlogged_.extract(event.step);
  if (node.empty()) return;
  StepPlanned& planned = node.mapped();
  std::map<Key, std::vector<std::uint16_t>> readers;
  for (const PlannedMicrobatch& microbatch : planned.plan.microbatches)
    for (const Key& key : microbatch.keys) {
      std::vector<std::uint16_t>& of_key = readers[key];
      const std::uint16_t reader = config_.consumers.at(microbatch.dp_rank);
      if (!std::ranges::count(of_key, reader)) of_key.push_back(reader);
    }
  for (const PlannedObject& object : planned.objects)
    book_.add(event.step, object, readers[object.key]);
  std::vector<PlanMessage> plans(config_.consumers.size(), {.step = event.step});
  for (PlannedMicrobatch& microbatch : planned.plan.microbatches)
    plans[microbatch.dp_rank].microbatches.push_back(std::move(microbatch));
  for (std::size_t rank = 0; rank < plans.size(); ++rank)
    if (const std::uint16_t consumer = config_.consumers[rank]; membership_.find(consumer)->is_in())
      outbox_.post(consumer, std::move(plans[rank]), now, actions_);
  logged_.insert(event.step);
  assign_open_steps(now);
  commit_finished_steps(now);  // where all consumers have left
}

void ControllerCore::assign_open_steps(TimePoint now) {
  std::vector<OwnerSpace> owners;
  bool nobody_encodes = true;
  for (const auto& [process, member] : membership_.members()) {
    if (!member.is_in() || member.identity.role != Role::kProducer) continue;
    const bool lends = process >= config_.first_lender;
    nobody_encodes = nobody_encodes && lends;
    if (member.leaves) continue;
    std::uint64_t pages = 0;
    for (const SegmentRow& row : member.rows) pages += row.length / row.page_bytes;
    owners.push_back({.process = process, .pages = pages, .lends = lends});
  }
  for (const std::uint64_t step : logged_) {
    if (step >= low_ + config_.window) return;
    for (const auto& [owner, pages] : book_.assign(step, owners)) {
      outbox_.post(
          owner,
          AssignMessage{
              .step = step, .version = ++versions_, .objects = book_.objects_of(step, owner)},
          now, actions_);
      grant(owner, pages, now);
    }
    if (nobody_encodes) continue;  // readers see it in their tables
    for (const auto& [key, readers] : book_.give_up(step)) {
      const RetractMessage given_up{.key = key, .generation = ++sequences_};
      for (const std::uint16_t reader : readers)
        if (membership_.find(reader)->is_in()) outbox_.post(reader, given_up, now, actions_);
    }
  }
}

void ControllerCore::grant(std::uint16_t owner, std::uint64_t pages, TimePoint now) {
  Credit& credit = granted_[owner];
  credit.granted_pages += pages;
  ++credit.sequence;
  outbox_.post(owner, credit, now, actions_);
}

void ControllerCore::commit_finished_steps(TimePoint now) {
  const auto has_finished = [this](std::uint16_t consumer) {
    return membership_.find(consumer)->step > low_;
  };
  bool advanced = false;
  while (logged_.contains(low_) && std::ranges::all_of(config_.consumers, has_finished)) {
    actions_.push_back(CommitStep{.step = low_});
    outbox_.drop_objects(book_.erase(low_));
    logged_.erase(low_++);
    advanced = true;
  }
  if (!advanced) return;
  for (const auto& [process, member] : membership_.members())
    if (member.is_in() && member.identity.role == Role::kProducer)
      outbox_.post(process, CommitMessage{.step = low_ - 1}, now, actions_);
  assign_open_steps(now);
}

void ControllerCore::tell_members(const EpochMessage& message, TimePoint now) {
  for (const auto& [process, member] : membership_.members())
    if (member.is_in()) outbox_.post(process, message, now, actions_);
}

void ControllerCore::lose(std::uint16_t process, const std::string& why, TimePoint now) {
  const MemberRecord* member = membership_.find(process);
  if (member == nullptr || !member->is_in()) return;
  if (!is_replaceable(member->identity)) {
    take(FailMessage{.process = process,
                     .fault = static_cast<std::uint32_t>(ExitCode::kPeerLost),
                     .text = str("memory: ",
                                 member->identity.role == Role::kConsumer ? "consumer " : "lender ",
                                 process, " is lost: ", why)},
         now);
    return;
  }
  outbox_.drop_peer(process);
  book_.release(process);
  const EpochMessage fenced = membership_.fence(process);
  tell_members(fenced, now);
  actions_.push_back(Send{.to = process, .message = fenced});
  assign_open_steps(now);
}

void ControllerCore::take(const MemberJoined& event, TimePoint now) {
  const Result<EpochMessage> joined = membership_.join(event, now);
  if (!joined) {
    ++refused_;
    actions_.push_back(
        ClosePeer{.process = event.identity.process, .reason = joined.refusal().reason});
    return;
  }
  const std::uint16_t process = event.identity.process;
  granted_[process] = {.epoch = joined.value().epoch};
  for (const auto& [other, member] : membership_.members())
    if (other != process) outbox_.post(process, membership_.epoch_of(other), now, actions_);
  tell_members(joined.value(), now);
  if (low_ > 0) outbox_.post(process, CommitMessage{.step = low_ - 1}, now, actions_);
  assign_open_steps(now);
}

void ControllerCore::take(const MemberLost& event, TimePoint now) {
  const MemberRecord* member = membership_.find(event.process);
  const bool is_in = member != nullptr && member->identity.incarnation == event.incarnation;
  if (is_in) lose(event.process, "its process has closed the link", now);
}

void ControllerCore::take_bye(const PeerIdentity& from, TimePoint now) {
  if (is_replaceable(from)) return lose(from.process, "said BYE", now);
  outbox_.drop_peer(from.process);
  membership_.leave(from.process);
  commit_finished_steps(now);
}

void ControllerCore::tick(TimePoint now) {
  for (const std::uint16_t process : membership_.silent(now)) lose(process, "silent", now);
  for (const auto& [process, member] : membership_.members())
    if (member.state == MemberState::kFenced && !outbox_.has_epoch_of(process))
      membership_.forget(process);
  outbox_.resend(now, actions_);
  if (failed_ && now - *failed_ >= config_.timers.collect_failures) stop();
}

void ControllerCore::stop() {
  stopped_ = true;
  for (const auto& [process, member] : membership_.members())
    if (member.is_in()) actions_.push_back(Send{.to = process, .message = *root_cause_});
  actions_.push_back(
      StopProcess{.code = static_cast<ExitCode>(root_cause_->fault), .reason = root_cause_->text});
}

}  // namespace tributary::memory
