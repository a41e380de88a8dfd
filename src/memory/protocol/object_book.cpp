#include "memory/protocol/object_book.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"

namespace tributary::memory {

/// The owners of one step, by what they have of it, while objects are given to them.
class ObjectBook::Choice {
 public:
  Choice(std::span<const OwnerSpace> owners, const std::map<std::uint16_t, Share>& shares,
         std::uint64_t reserve)
      : reserve_(reserve) {
    for (const OwnerSpace& owner : owners) {
      const auto share = shares.find(owner.process);
      const std::uint64_t has = share == shares.end() ? 0 : share->second.pages;
      loads_[owner.process] = {.has = has, .pages = owner.pages};
      if (!owner.lends) by_load_.insert({has, owner.process});
    }
  }

  /// The owner of an object; `bundled` is the one that has its bundle. An owner with room comes
  /// before one that takes the object into its reserve.
  [[nodiscard]] std::optional<std::uint16_t> find(const ObjectRecord& record,
                                                  std::optional<std::uint16_t> bundled) const {
    for (const std::uint64_t reserve : {reserve_, std::uint64_t{0}}) {
      const auto fits = [&](std::uint16_t process) {
        const Load& load = loads_.at(process);
        return load.has + reserve_ <= load.pages && load.has + record.pages + reserve <= load.pages;
      };
      if (record.lender) {
        if (loads_.contains(*record.lender) && fits(*record.lender)) return record.lender;
        continue;
      }
      if (bundled && by_load_.contains({load_of(*bundled), *bundled}) && fits(*bundled))
        return bundled;
      for (const auto& [has, process] : by_load_)
        if (fits(process)) return process;
    }
    return std::nullopt;
  }

  void add(std::uint16_t owner, std::uint32_t pages) {
    Load& load = loads_.at(owner);
    const bool lends = by_load_.erase({load.has, owner}) == 0;
    load.has += pages;
    if (!lends) by_load_.insert({load.has, owner});
  }

 private:
  struct Load {
    std::uint64_t has = 0, pages = 0;
  };
  [[nodiscard]] std::uint64_t load_of(std::uint16_t process) const {
    const auto found = loads_.find(process);
    return found == loads_.end() ? 0 : found->second.has;
  }

  std::uint64_t reserve_;
  std::map<std::uint16_t, Load> loads_;
  std::set<std::pair<std::uint64_t, std::uint16_t>> by_load_;  // of those that encode
};

void ObjectBook::add(std::uint64_t step, const PlannedObject& object,
                     std::vector<std::uint16_t> readers) {
  Step& of = steps_[step];
  const auto [record, is_new] =
      records_.emplace(object.key, ObjectRecord{.step = step,
                                                .pages = object.pages,
                                                .bundle = object.bundle,
                                                .lender = object.lender,
                                                .readers = std::move(readers)});
  TRIB_CHECK(is_new, .what = "memory: an object is planned twice",
             .found = str("sample ", object.key.sample, " part ", object.key.part));
  of.open.push_back(static_cast<std::uint32_t>(of.objects.size()));
  of.objects.push_back(&*record);
}

std::map<std::uint16_t, std::uint64_t> ObjectBook::assign(std::uint64_t step,
                                                          std::span<const OwnerSpace> owners) {
  std::map<std::uint16_t, std::uint64_t> assigned;
  const auto found = steps_.find(step);
  if (found == steps_.end() || found->second.open.empty() || owners.empty()) return assigned;
  Step& of = found->second;
  Choice choice(owners, of.shares, reserve_);
  for (const std::uint32_t place : std::exchange(of.open, {})) {
    ObjectRecord& record = of.objects[place]->second;
    const auto bundle = of.bundles.find(record.bundle);
    record.owner = choice.find(
        record, bundle == of.bundles.end() ? std::nullopt : std::optional(bundle->second));
    if (!record.owner) {
      of.open.push_back(place);
      continue;
    }
    choice.add(*record.owner, record.pages);
    if (record.bundle != 0) of.bundles[record.bundle] = *record.owner;
    record.is_given_up = false;
    Share& share = of.shares[*record.owner];
    share.pages += record.pages;
    share.places.push_back(place);
    assigned[*record.owner] += record.pages;
  }
  for (const auto& [owner, pages] : assigned) std::ranges::sort(of.shares.at(owner).places);
  return assigned;
}

std::vector<std::pair<Key, std::vector<std::uint16_t>>> ObjectBook::give_up(std::uint64_t step) {
  std::vector<std::pair<Key, std::vector<std::uint16_t>>> objects;
  const auto of = steps_.find(step);
  if (of == steps_.end()) return objects;
  for (const std::uint32_t place : of->second.open) {
    auto& [key, record] = *of->second.objects[place];
    if (!std::exchange(record.is_given_up, true)) objects.emplace_back(key, record.readers);
  }
  return objects;
}

std::vector<AssignedObject> ObjectBook::objects_of(std::uint64_t step, std::uint16_t owner) const {
  std::vector<AssignedObject> objects;
  const auto of = steps_.find(step);
  if (of == steps_.end()) return objects;
  const auto share = of->second.shares.find(owner);
  if (share == of->second.shares.end()) return objects;
  for (const std::uint32_t place : share->second.places) {
    const auto& [key, record] = *of->second.objects[place];
    objects.push_back({.key = key, .pages = record.pages});
  }
  return objects;
}

void ObjectBook::release(std::uint16_t owner) {
  for (auto& [step, of] : steps_) {
    const auto share = of.shares.extract(owner);
    if (share.empty()) continue;
    for (const std::uint32_t place : share.mapped().places) {
      ObjectRecord& record = of.objects[place]->second;
      record.owner.reset();
      record.handle.reset();
      record.newest_generation = 0;
      of.open.push_back(place);
    }
    std::ranges::sort(of.open);
  }
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
  std::vector<Key> keys;
  const auto of = steps_.extract(step);
  if (of.empty()) return keys;
  for (const auto* object : of.mapped().objects) keys.push_back(object->first);
  for (const Key& key : keys) records_.erase(key);
  return keys;
}

ObjectRecord* ObjectBook::find(const Key& key) {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

}  // namespace tributary::memory
