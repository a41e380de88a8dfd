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
  if (const auto old = entries_.find(place); old != entries_.end())
    by_acknowledgement_.erase(acknowledgement_of(to, ack_of(old->second.message)));
  by_acknowledgement_[acknowledgement_of(to, ack_of(message))] = place;
  entries_.insert_or_assign(place, Entry{.message = std::move(message), .sent = now});
  by_time_.emplace_back(now, place);
}

void Outbox::acknowledge(std::uint16_t from, const AckMessage& ack) {
  if (const auto node = by_acknowledgement_.extract(acknowledgement_of(from, ack)))
    entries_.erase(node.mapped());
}

void Outbox::resend(TimePoint now, std::vector<Action>& actions) {
  std::vector<Place> due;
  for (; !by_time_.empty() && now - by_time_.front().first >= resend_after_; by_time_.pop_front()) {
    const auto& [sent, place] = by_time_.front();
    const auto entry = entries_.find(place);
    if (entry == entries_.end() || entry->second.sent != sent)
      continue;  // sent again since, or done
    actions.push_back(Send{.to = std::get<0>(place), .message = entry->second.message});
    entry->second.sent = now;
    due.push_back(place);
  }
  for (const Place& place : due) by_time_.emplace_back(now, place);
}

void Outbox::drop_peer(std::uint16_t process) {
  const auto is_of_peer = [process](const auto& entry) {
    return std::get<0>(entry.first) == process;
  };
  std::erase_if(entries_, is_of_peer);
  std::erase_if(by_acknowledgement_, is_of_peer);
}

void Outbox::drop_objects(std::vector<Key> keys) {
  std::ranges::sort(keys);
  const auto is_of_object = [&keys](const auto& entry) {
    const FrameType type = std::get<1>(entry.first);
    return (type == FrameType::kPublish || type == FrameType::kRetract) &&
           std::ranges::binary_search(keys, std::get<3>(entry.first));
  };
  std::erase_if(entries_, is_of_object);
  std::erase_if(by_acknowledgement_, is_of_object);
}

bool Outbox::has_epoch_of(std::uint16_t process) const {
  return std::ranges::any_of(entries_, [process](const auto& entry) {
    const auto* epoch = std::get_if<EpochMessage>(&entry.second.message);
    return epoch != nullptr && epoch->process == process;
  });
}

}  // namespace tributary::memory
