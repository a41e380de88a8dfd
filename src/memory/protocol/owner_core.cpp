#include "memory/protocol/owner_core.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tributary::memory {

OwnerCore::OwnerCore(const OwnerConfig& config, PageTable table, Generations generations)
    : config_(config),
      member_(config.identity, config.timers, std::move(table)),
      generations_(generations),
      requests_(config.identity.controller, config.timers.resend),
      low_(config.first_step) {
  begin_epoch();
}

void OwnerCore::begin_epoch() {
  const std::uint32_t epoch = member_.identity().epoch;
  objects_ = std::make_unique<ObjectTable>(config_.place, epoch, generations_);
  access_ = std::make_unique<ReaderAccess>(*objects_, config_.limits);
  credits_.begin_epoch(epoch);
}

std::vector<Action> OwnerCore::step(const Event& event, TimePoint now) {
  actions_.clear();
  if (member_.is_stopped()) return {};
  if (const auto* message = std::get_if<MessageReceived>(&event)) take(*message, now);
  if (std::holds_alternative<Tick>(event)) {
    member_.tick(now, actions_);
    objects_->expire_leases(now);
  }
  if (std::holds_alternative<LinkRenewed>(event)) member_.renew_link(now, actions_);
  if (const auto* encoded = std::get_if<Encoded>(&event)) take(*encoded, now);
  if (const auto* failed = std::get_if<EncodeFailed>(&event)) take(*failed, now);
  if (const auto* cancelled = std::get_if<EncodeCancelled>(&event);
      cancelled != nullptr && cancelled_.contains(cancelled->slot))
    abort(cancelled->slot);
  if (const auto* ended = std::get_if<GrantEnded>(&event)) access_->end(ended->grant);
  if (const auto* asked = std::get_if<ObjectAsked>(&event)) requests_.ask(*asked);
  if (std::holds_alternative<LeaveAsked>(event)) {
    member_.leaves = true;
    member_.send_heartbeat(now, actions_);
  }
  if (const auto* done = std::get_if<GetDone>(&event)) (void)requests_.take(*done, now);
  pages_changed_ |= !std::holds_alternative<MessageReceived>(event);
  if (std::exchange(pages_changed_, false) && !member_.is_stopped()) {
    free_excess(now);
    admit();
  }
  if (!member_.is_stopped()) requests_.advance(now, member_.table(), actions_);
  return std::exchange(actions_, {});
}

void OwnerCore::take(const MessageReceived& event, TimePoint now) {
  if (member_.take(event, now, actions_) || member_.is_stopped()) return;
  if (const auto* epoch = std::get_if<EpochMessage>(&event.message)) take(*epoch);
  if (const auto* get = std::get_if<GetRequest>(&event.message)) {
    actions_.push_back(access_->answer(event.from, *get, now));
    const Status status{std::get<SendObject>(actions_.back()).reply.status};
    if (status == Status::kBounds)
      actions_.push_back(ClosePeer{.process = event.from.process,
                                   .reason = "memory: a request outside of its object or role"});
  }
  pages_changed_ |= type_of(event.message) != FrameType::kGet;
  if (const auto* lease = std::get_if<LeaseMessage>(&event.message)) {
    AckMessage ack = ack_of(event.message);
    ack.status = access_->lease(event.from, *lease, now);
    actions_.push_back(Send{.to = event.from.process, .message = ack});
  }
  if (const auto* unlease = std::get_if<UnleaseMessage>(&event.message)) {
    access_->unlease(event.from, unlease->lease_id);
    acknowledge(event, actions_);
  }
  if (std::holds_alternative<ByeMessage>(event.message))
    access_->drop(event.from.process, event.from.epoch + 1);
  if (event.from.role != Role::kController) return;
  if (const auto* assign = std::get_if<AssignMessage>(&event.message)) take(event, *assign);
  if (const auto* credit = std::get_if<Credit>(&event.message)) take(event, *credit);
  if (const auto* publish = std::get_if<PublishMessage>(&event.message)) {
    acknowledge(event, actions_);
    requests_.take(*publish);
  }
  if (std::holds_alternative<RetractMessage>(event.message)) acknowledge(event, actions_);
  if (const auto* commit = std::get_if<CommitMessage>(&event.message)) {
    acknowledge(event, actions_);
    take(*commit);
  }
}

void OwnerCore::take(const EpochMessage& message) {
  access_->drop(message.process, message.epoch);
  if (message.process == config_.identity.process && member_.identity().epoch != objects_->epoch())
    begin_epoch();
}

void OwnerCore::take(const MessageReceived& event, const AssignMessage& message) {
  // Before it has an epoch a process owns nothing; the message comes again.
  if (member_.identity().epoch == 0) return;
  acknowledge(event, actions_);
  if (message.step < low_) return;
  AssignedObjects& own = assigned_[message.step];
  if (message.version <= own.version()) return;
  own = AssignedObjects(message);
  for (const AssignedObject& object : message.objects)
    if (made_.contains(object.key)) own.begin(object.key);
}

void OwnerCore::reopen(const Key& key, std::uint64_t step) {
  made_.erase(key);
  if (const auto of = assigned_.find(step); of != assigned_.end()) of->second.reopen(key);
}

void OwnerCore::take(const MessageReceived& event, const Credit& credit) {
  switch (credits_.apply(credit)) {
    case CreditLedger::Outcome::kApplied:
    case CreditLedger::Outcome::kRepeated:
      acknowledge(event, actions_);
      return;
    case CreditLedger::Outcome::kOldEpoch:
      return;
    case CreditLedger::Outcome::kWithdrawn:
      actions_.push_back(ClosePeer{.process = event.from.process,
                                   .reason = str("memory: a grant fell from ", credits_.granted(),
                                                 " to ", credit.granted_pages, " pages")});
      return;
  }
}

void OwnerCore::take(const CommitMessage& message) {
  if (message.step < low_) return;
  low_ = message.step + 1;
  objects_->retire_through(message.step);
  requests_.forget_before(low_);
  std::erase_if(assigned_, [this](const auto& assigned) { return assigned.first < low_; });
  std::erase_if(cancelled_pages_, [](const auto& of_step) { return of_step.second == 0; });
  std::erase_if(made_, [this](const auto& made) {
    const auto slot = objects_->slots().find(made.second);
    return slot == objects_->slots().end() || slot->second.step < low_;
  });
}

void OwnerCore::take(const Encoded& event, TimePoint now) {
  const ObjectSlot& slot = objects_->slot(event.slot);
  // Its step is over, since the object was made a second time, or it is to be made again later.
  if (slot.step < low_ || cancelled_.contains(event.slot)) return abort(event.slot);
  --writing_;
  ++member_.progress;
  failures_.erase(slot.key);
  const ObjectHandle& handle = objects_->seal(event.slot, event.description);
  member_.outbox().post(config_.identity.controller,
                        PublishMessage{.sequence = handle.fields.generation, .handle = handle}, now,
                        actions_);
}

void OwnerCore::take(const EncodeFailed& event, TimePoint now) {
  // Readers that know of it do not wait; they make the object themselves.
  if (++failures_[objects_->slot(event.slot).key] >= config_.encode_attempts)
    return take(Encoded{.slot = event.slot}, now);
  abort(event.slot);
}

void OwnerCore::abort(SlotId id) {
  const ObjectSlot& slot = objects_->slot(id);
  const Key key = slot.key;
  const std::uint64_t step = slot.step;
  --writing_;
  if (cancelled_.erase(id) > 0) cancelled_pages_[step] -= slot.pages;
  credits_.give_back(slot.pages);
  objects_->abort(id);
  if (step >= low_) reopen(key, step);
}

bool OwnerCore::has_left() const {
  return member_.leaves && writing_ == 0 &&
         std::ranges::all_of(assigned_, [](const auto& step) { return step.second.pages() == 0; });
}

std::vector<StepPages> OwnerCore::pages_by_step() const {
  std::map<std::uint64_t, StepPages> pages{{low_, {}}};
  for (const auto& [step, assigned] : assigned_) pages[step].planned = assigned.pages();
  for (const auto& [step, held] : objects_->held()) pages[std::max(step, low_)].held += held;
  for (const auto& [step, cancelled] : cancelled_pages_)
    pages[std::max(step, low_)].held -= cancelled;
  std::vector<StepPages> list;
  for (const auto& [step, one] : pages)
    list.push_back({.step = step, .planned = one.planned, .held = one.held});
  return list;
}

void OwnerCore::admit() {
  is_blocked_ = false;
  if (writing_ >= config_.encoders) return;
  std::vector<StepPages> pages = pages_by_step();
  const auto end = assigned_.lower_bound(low_ + config_.window);
  for (auto assigned = assigned_.begin(); assigned != end; ++assigned) {
    // Where an object may not start, no other one of its step with as many pages may.
    std::uint64_t below = UINT64_MAX;
    while (const AssignedObject* next = assigned->second.next(below)) {
      if (!start(*next, assigned->first, pages)) {
        is_blocked_ = true;
        below = next->pages;
        continue;
      }
      assigned->second.begin(next->key);
      if (writing_ >= config_.encoders) {
        is_blocked_ = false;
        return;
      }
      pages = pages_by_step();
    }
  }
}

bool OwnerCore::start(const AssignedObject& object, std::uint64_t step,
                      std::span<const StepPages> pages) {
  const OwnerCapacity capacity{.pages = config_.place.pages, .reserve = config_.reserve_pages};
  if (!may_look_ahead(capacity, pages, step, object.pages)) return false;
  if (object.pages > credits_.available()) return false;
  const std::optional<SlotId> slot = objects_->reserve(
      object.key, step, object.pages, step == low_ ? Urgency::kLow : Urgency::kLookAhead);
  if (!slot) return false;
  TRIB_CHECK(credits_.consume(object.pages), .what = "memory: available credit was not given");
  made_[object.key] = *slot;
  objects_->begin_write(*slot);
  ++writing_;
  actions_.push_back(Encode{.slot = *slot, .key = object.key, .runs = objects_->slot(*slot).runs});
  return true;
}

void OwnerCore::free_excess(TimePoint now) {
  const OwnerCapacity capacity{.pages = config_.place.pages, .reserve = config_.reserve_pages};
  std::vector<StepPages> pages = pages_by_step();
  if (!holds_too_much(capacity, pages)) return;
  std::vector<std::pair<std::uint64_t, SlotId>> later;  // that no reader uses
  for (const auto& [id, slot] : objects_->slots())
    if (slot.step > low_ && slot.state != ObjectState::kRetired && slot.leases.empty() &&
        !cancelled_.contains(id))
      later.emplace_back(slot.step, id);
  std::ranges::sort(later, std::ranges::greater());  // the newest first
  for (const auto& [step, id] : later) {
    const auto of_step = std::ranges::find(pages, step, &StepPages::step);
    of_step->held -= objects_->slot(id).pages;
    if (objects_->slot(id).state == ObjectState::kSealed)
      revoke(id, now);
    else
      cancel(id);
    if (!holds_too_much(capacity, pages)) return;
  }
}

void OwnerCore::cancel(SlotId id) {
  const ObjectSlot& slot = objects_->slot(id);
  cancelled_.insert(id);
  cancelled_pages_[slot.step] += slot.pages;
  actions_.push_back(CancelEncode{.slot = id});
}

void OwnerCore::revoke(SlotId id, TimePoint now) {
  const ObjectSlot& slot = objects_->slot(id);
  const RetractMessage retracted{.key = slot.key, .generation = slot.handle.fields.generation};
  const std::uint64_t step = slot.step;
  credits_.give_back(slot.pages);  // this owner makes it again, later
  TRIB_CHECK(objects_->revoke(id), .what = "memory: a free object was not revoked");
  reopen(retracted.key, step);
  member_.outbox().post(config_.identity.controller, retracted, now, actions_);
}

}  // namespace tributary::memory
