#include "memory/protocol/object_book.h"

#include <tuple>
#include <utility>

#include "core/error.h"

namespace tributary::memory {

void ObjectBook::add(std::uint64_t step, const PlannedObject& object,
                     std::vector<std::uint16_t> readers) {
  const bool is_new = records_
                          .emplace(object.key, ObjectRecord{.step = step,
                                                            .pages = object.pages,
                                                            .bundle = object.bundle,
                                                            .lender = object.lender,
                                                            .readers = std::move(readers)})
                          .second;
  TRIB_CHECK(is_new, .what = "memory: an object is planned twice",
             .found = str("sample ", object.key.sample, " part ", object.key.part));
  keys_[step].push_back(object.key);
}

std::uint64_t ObjectBook::planned(std::uint16_t owner, std::uint64_t step) const {
  const auto found = planned_.find({owner, step});
  return found == planned_.end() ? 0 : found->second;
}

std::optional<std::uint16_t> ObjectBook::choose(const ObjectRecord& record,
                                                std::span<const OwnerSpace> owners) const {
  const auto bundle = bundles_.find({record.step, record.bundle});
  std::optional<std::tuple<bool, bool, std::uint64_t, std::uint16_t>> best;
  for (const OwnerSpace& owner : owners) {
    if (record.lender ? owner.process != *record.lender : owner.lends) continue;
    const std::uint64_t has = planned(owner.process, record.step);
    const bool fits = has + record.pages + reserve_ <= owner.pages;
    const bool fits_reserve = has + reserve_ <= owner.pages && has + record.pages <= owner.pages;
    const bool is_bundled = bundle != bundles_.end() && bundle->second == owner.process;
    const std::tuple candidate(!fits, !is_bundled, has, owner.process);
    if ((fits || fits_reserve) && (!best || candidate < *best)) best = candidate;
  }
  if (!best) return std::nullopt;
  return std::get<3>(*best);
}

std::map<std::uint16_t, std::uint64_t> ObjectBook::assign(std::uint64_t step,
                                                          std::span<const OwnerSpace> owners) {
  std::map<std::uint16_t, std::uint64_t> assigned;
  const auto keys = keys_.find(step);
  if (keys == keys_.end()) return assigned;
  for (const Key& key : keys->second) {
    ObjectRecord& record = records_.at(key);
    if (record.owner) continue;
    record.owner = choose(record, owners);
    if (!record.owner) continue;
    if (record.bundle != 0) bundles_[{step, record.bundle}] = *record.owner;
    record.is_given_up = false;
    planned_[{*record.owner, step}] += record.pages;
    assigned[*record.owner] += record.pages;
  }
  return assigned;
}

std::vector<std::pair<Key, std::vector<std::uint16_t>>> ObjectBook::give_up(std::uint64_t step) {
  std::vector<std::pair<Key, std::vector<std::uint16_t>>> objects;
  const auto keys = keys_.find(step);
  if (keys == keys_.end()) return objects;
  for (const Key& key : keys->second) {
    ObjectRecord& record = records_.at(key);
    if (!record.owner && !std::exchange(record.is_given_up, true))
      objects.emplace_back(key, record.readers);
  }
  return objects;
}

std::vector<AssignedObject> ObjectBook::objects_of(std::uint64_t step, std::uint16_t owner) const {
  std::vector<AssignedObject> objects;
  const auto keys = keys_.find(step);
  if (keys == keys_.end()) return objects;
  for (const Key& key : keys->second) {
    const ObjectRecord& record = records_.at(key);
    if (record.owner == owner) objects.push_back({.key = key, .pages = record.pages});
  }
  return objects;
}

void ObjectBook::release(std::uint16_t owner) {
  for (auto& [key, record] : records_) {
    if (record.owner != owner) continue;
    record.owner.reset();
    record.handle.reset();
    record.newest_generation = 0;
  }
  std::erase_if(planned_, [owner](const auto& entry) { return entry.first.first == owner; });
}

ObjectRecord* ObjectBook::publish(const ObjectHandle& handle) {
  ObjectRecord* record = find(handle.fields.key);
  if (record == nullptr || record->owner != handle.fields.process ||
      handle.fields.generation <= record->newest_generation)
    return nullptr;
  record->newest_generation = handle.fields.generation;
  record->handle = handle;
  return record;
}

void ObjectBook::retract(std::uint16_t owner, const RetractMessage& message) {
  ObjectRecord* record = find(message.key);
  if (record == nullptr || record->owner != owner || message.generation < record->newest_generation)
    return;
  // Where the PUBLISH of this generation comes later, it must not bring the object back.
  record->newest_generation = message.generation;
  record->handle.reset();
}

std::vector<Key> ObjectBook::erase(std::uint64_t step) {
  const auto keys = keys_.extract(step);
  if (keys.empty()) return {};
  for (const Key& key : keys.mapped()) records_.erase(key);
  std::erase_if(planned_, [step](const auto& entry) { return entry.first.second == step; });
  std::erase_if(bundles_, [step](const auto& entry) { return entry.first.first == step; });
  return keys.mapped();
}

ObjectRecord* ObjectBook::find(const Key& key) {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

}  // namespace tributary::memory
