#include "memory/protocol/outbox.h"

#include <algorithm>
#include <utility>

namespace tributary::memory {

Outbox::Place Outbox::acknowledgement_of(std::uint16_t to, const AckMessage& ack) {
  return {to, ack.type, ack.sequence, ack.key};
}

Outbox::Place Outbox::place_of(std::uint16_t to, const Message& message) {
  const AckMessage ack = ack_of(message);
  std::uint64_t number = 0;
  if (const auto* epoch = std::get_if<EpochMessage>(&message)) number = epoch->process;
  if (const auto* assign = std::get_if<AssignMessage>(&message)) number = assign->step;
  if (const auto* plan = std::get_if<PlanMessage>(&message)) number = plan->step;
  return {to, ack.type, number, ack.key};
}

void Outbox::post(std::uint16_t to, Message message, TimePoint now, std::vector<Action>& actions) {
  actions.push_back(Send{.to = to, .message = message});
  const Place place = place_of(to, message);
  if (const auto old = entries_.find(place); old != entries_.end()) {
    by_acknowledgement_.erase(acknowledgement_of(to, ack_of(old->second.message)));
    by_time_.erase({old->second.due, place});
  }
  by_acknowledgement_[acknowledgement_of(to, ack_of(message))] = place;
  by_time_.emplace(now + resend_after_, place);
  entries_.insert_or_assign(
      place,
      Entry{.message = std::move(message), .due = now + resend_after_, .wait = resend_after_});
}

void Outbox::acknowledge(std::uint16_t from, const AckMessage& ack) {
  const auto node = by_acknowledgement_.extract(acknowledgement_of(from, ack));
  if (node.empty()) return;
  const auto entry = entries_.find(node.mapped());
  by_time_.erase({entry->second.due, entry->first});
  entries_.erase(entry);
}

void Outbox::resend(TimePoint now, std::vector<Action>& actions) {
  std::vector<Place> due;
  for (; !by_time_.empty() && by_time_.begin()->first <= now; by_time_.erase(by_time_.begin()))
    due.push_back(by_time_.begin()->second);
  for (const Place& place : due) {
    Entry& entry = entries_.at(place);
    actions.push_back(Send{.to = std::get<0>(place), .message = entry.message});
    entry.wait = std::min(entry.wait * 2, resend_after_ * kMaxWait);
    entry.due = now + entry.wait;
    by_time_.emplace(entry.due, place);
  }
}

void Outbox::resend_all(std::uint16_t to, TimePoint now, std::vector<Action>& actions) {
  for (auto each = first_of(entries_, to); each != entries_.end() && std::get<0>(each->first) == to;
       ++each) {
    auto& [place, entry] = *each;
    by_time_.erase({entry.due, place});
    entry.due = now;
    entry.wait = resend_after_;
    by_time_.emplace(now, place);
  }
  resend(now, actions);
}

void Outbox::drop_peer(std::uint16_t process) {
  drop([process](const Place& place) { return std::get<0>(place) == process; });
}

void Outbox::drop_objects(std::vector<Key> keys) {
  std::ranges::sort(keys);
  drop([&keys](const Place& place) {
    const FrameType type = std::get<1>(place);
    return (type == FrameType::kPublish || type == FrameType::kRetract) &&
           std::ranges::binary_search(keys, std::get<3>(place));
  });
}

void Outbox::drop(const std::function<bool(const Place&)>& is_dropped) {
  std::erase_if(entries_, [&](const auto& entry) { return is_dropped(entry.first); });
  std::erase_if(by_acknowledgement_, [&](const auto& each) { return is_dropped(each.second); });
  std::erase_if(by_time_, [&](const auto& each) { return is_dropped(each.second); });
}

bool Outbox::has_epoch_of(std::uint16_t process) const {
  for (auto each = entries_.begin(); each != entries_.end();) {
    const std::uint16_t to = std::get<0>(each->first);
    if (entries_.contains({to, FrameType::kEpoch, process, Key{}})) return true;
    if (to == UINT16_MAX) break;
    each = first_of(entries_, to + 1);
  }
  return false;
}

}  // namespace tributary::memory
