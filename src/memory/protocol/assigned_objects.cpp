#include "memory/protocol/assigned_objects.h"

#include <algorithm>

namespace tributary::memory {

AssignedObjects::AssignedObjects(AssignMessage message) : message_(std::move(message)) {
  for (std::uint32_t place = 0; place < message_.objects.size(); ++place) {
    const AssignedObject& object = message_.objects[place];
    pages_ += object.pages;
    places_.emplace_back(object.key, place);
    open_[object.pages].insert(place);
  }
  std::ranges::sort(places_);
}

std::optional<std::uint32_t> AssignedObjects::place_of(const Key& key) const {
  const auto found =
      std::ranges::lower_bound(places_, key, {}, &std::pair<Key, std::uint32_t>::first);
  if (found == places_.end() || found->first != key) return std::nullopt;
  return found->second;
}

const AssignedObject* AssignedObjects::next(std::uint64_t below) const {
  std::optional<std::uint32_t> first;
  for (const auto& [pages, places] : open_)
    if (pages < below && (!first || *places.begin() < *first)) first = *places.begin();
  return first ? &message_.objects[*first] : nullptr;
}

void AssignedObjects::begin(const Key& key) {
  const std::optional<std::uint32_t> place = place_of(key);
  if (!place) return;
  const auto size = open_.find(message_.objects[*place].pages);
  if (size == open_.end()) return;
  size->second.erase(*place);
  if (size->second.empty()) open_.erase(size);
}

void AssignedObjects::reopen(const Key& key) {
  if (const std::optional<std::uint32_t> place = place_of(key))
    open_[message_.objects[*place].pages].insert(*place);
}

}  // namespace tributary::memory
