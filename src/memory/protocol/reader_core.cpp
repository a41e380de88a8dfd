#include "memory/protocol/reader_core.h"

#include <algorithm>

namespace tributary::memory {

ReaderCore::ReaderCore(const ReaderConfig& config, PageTable table)
    : config_(config),
      member_(config.identity, config.timers, std::move(table)),
      current_(config.first_step),
      next_delivery_{.step = config.first_step} {
  member_.step = current_;
}

std::vector<Action> ReaderCore::step(const Event& event, TimePoint now) {
  actions_.clear();
  if (member_.is_stopped()) return {};
  if (const auto* message = std::get_if<MessageReceived>(&event)) take(*message, now);
  if (std::holds_alternative<Tick>(event)) {
    member_.tick(now, actions_);
    ask_for_later_handles(now);
  }
  if (std::holds_alternative<LinkRenewed>(event)) member_.renew_link(now, actions_);
  if (const auto* done = std::get_if<GetDone>(&event)) take(*done, now);
  if (const auto* finished = std::get_if<StepFinished>(&event)) take(*finished, now);
  if (!member_.is_stopped()) {
    deliver();
    start_gets(now);
  }
  return std::exchange(actions_, {});
}

void ReaderCore::take(const MessageReceived& event, TimePoint now) {
  if (member_.take(event, now, actions_) || member_.is_stopped()) return;
  if (std::holds_alternative<EpochMessage>(event.message)) ready_.merge(unbound_);
  if (event.from.role != Role::kController) return;
  if (const auto* plan = std::get_if<PlanMessage>(&event.message)) take(event, *plan);
  if (const auto* publish = std::get_if<PublishMessage>(&event.message)) take(event, *publish);
  if (std::holds_alternative<RetractMessage>(event.message)) acknowledge(event, actions_);
}

void ReaderCore::take(const MessageReceived& event, const PlanMessage& plan) {
  acknowledge(event, actions_);
  if (plan.step < current_ || plans_.contains(plan.step)) return;
  std::vector<PlannedMicrobatch>& own = plans_[plan.step];
  for (const PlannedMicrobatch& microbatch : plan.microbatches)
    if (microbatch.dp_rank == config_.dp_rank) own.push_back(microbatch);
  std::ranges::sort(own, {}, &PlannedMicrobatch::order);
  Place place{plan.step, 0};
  for (const PlannedMicrobatch& microbatch : own)
    for (const Key& key : microbatch.keys) {
      wanted_.try_emplace(key, Wanted{.place = place, .published = {}});
      ++place.second;
    }
}

void ReaderCore::take(const MessageReceived& event, const PublishMessage& publish) {
  // An object of an unknown plan is not acknowledged: its message comes again, after the plan.
  const auto found = wanted_.find(publish.handle.fields.key);
  if (found == wanted_.end()) return;
  acknowledge(event, actions_);
  Wanted& wanted = found->second;
  if (wanted.published && wanted.published->sequence >= publish.sequence) return;
  wanted.published = publish;
  wanted.failures = 0;
  if (wanted.is_gathered || wanted.request != 0) return;
  unbound_.erase(wanted.place);
  stale_.erase(wanted.place);
  resting_.erase({wanted.not_before, found->first});
  ready_.emplace(wanted.place, found->first);
}

void ReaderCore::take(const GetDone& event, TimePoint now) {
  const auto node = gets_.extract(event.request);
  const auto found = node.empty() ? wanted_.end() : wanted_.find(node.mapped());
  if (found == wanted_.end() || found->second.request != event.request) return;
  Wanted& wanted = found->second;
  wanted.request = 0;
  ++member_.progress;
  switch (event.status) {
    case Status::kOk:
      wanted.is_gathered = true;
      return;
    case Status::kStale:
      // A later handle that came meanwhile has not been tried.
      (wanted.requested == wanted.published->sequence ? stale_ : ready_)
          .emplace(wanted.place, found->first);
      return;
    case Status::kBounds:
      member_.stop(ExitCode::kBug,
                   str("memory: an owner refused a request for sample ", found->first.sample,
                       " as out of bounds"),
                   actions_);
      return;
    case Status::kEpoch:
    case Status::kBusy:
      rest(found->first, wanted, now);
      return;
    case Status::kTimeout:
    case Status::kPeerLost:
    case Status::kBackend:
    case Status::kCorrupt:
      rest(found->first, wanted, now);
      // A later handle that came meanwhile has not failed.
      if (wanted.requested == wanted.published->sequence && ++wanted.failures >= config_.attempts)
        report_owner(wanted.published->handle.fields, event.status);
      return;
  }
}

void ReaderCore::rest(const Key& key, Wanted& wanted, TimePoint now) {
  wanted.not_before = now + config_.retry_after;
  resting_.emplace(wanted.not_before, key);
}

void ReaderCore::report_owner(const WireHandle& handle, Status status) {
  actions_.push_back(Send{
      .to = config_.identity.controller,
      .message =
          FailMessage{.process = handle.process,
                      .fault = static_cast<std::uint32_t>(ExitCode::kPeerLost),
                      .text = str("memory: process ", handle.process, " in epoch ", handle.epoch,
                                  " does not give sample ", handle.key.sample, " to process ",
                                  config_.identity.process, ": ", name_of(status))}});
}

void ReaderCore::take(const StepFinished& event, TimePoint now) {
  if (event.step != current_) return;
  if (const auto plan = plans_.extract(current_))
    for (const PlannedMicrobatch& microbatch : plan.mapped())
      for (const Key& key : microbatch.keys) wanted_.erase(key);
  member_.step = ++current_;
  for (std::map<Place, Key>* places : {&ready_, &unbound_, &stale_})
    places->erase(places->begin(), places->lower_bound({current_, 0}));
  std::erase_if(resting_, [this](const auto& each) { return !wanted_.contains(each.second); });
  if (next_delivery_.step < current_)
    next_delivery_ = {.step = current_};  // what did not come never does
  member_.send_heartbeat(now, actions_);
}

void ReaderCore::ask_for_later_handles(TimePoint now) {
  for (const auto& [place, key] : stale_) {
    Wanted& wanted = wanted_.at(key);
    if (now - wanted.asked < config_.timers.resend) continue;
    wanted.asked = now;
    actions_.push_back(Send{.to = config_.identity.controller,
                            .message = ResolveMessage{.key = key, .sequence = wanted.requested}});
  }
}

void ReaderCore::start_gets(TimePoint now) {
  if (!member_.table().is_agreed()) return;
  while (!resting_.empty() && resting_.begin()->first <= now) {
    const Key key = resting_.extract(resting_.begin()).value().second;
    ready_.emplace(wanted_.at(key).place, key);
  }
  while (!ready_.empty() && gets_.size() < config_.gets &&
         ready_.begin()->first.first <= current_ + config_.ahead) {
    auto next = ready_.extract(ready_.begin());
    const Key key = next.mapped();
    Wanted& wanted = wanted_.at(key);
    if (!member_.table().binds(wanted.published->handle)) {
      unbound_.insert(std::move(next));
      continue;
    }
    wanted.request = next_request_++;
    wanted.requested = wanted.published->sequence;
    gets_[wanted.request] = key;
    actions_.push_back(StartGet{.request = wanted.request, .handle = wanted.published->handle});
  }
}

void ReaderCore::deliver() {
  for (;;) {
    const auto plan = plans_.find(next_delivery_.step);
    if (plan == plans_.end()) return;
    if (next_delivery_.microbatch == plan->second.size()) {
      next_delivery_ = {.step = next_delivery_.step + 1};
      continue;
    }
    const PlannedMicrobatch& next = plan->second[next_delivery_.microbatch];
    for (; next_delivery_.key < next.keys.size(); ++next_delivery_.key)
      if (!wanted_.at(next.keys[next_delivery_.key]).is_gathered) return;
    actions_.push_back(DeliverMicrobatch{.step = plan->first, .order = next.order});
    ++next_delivery_.microbatch;
    next_delivery_.key = 0;
  }
}

}  // namespace tributary::memory
