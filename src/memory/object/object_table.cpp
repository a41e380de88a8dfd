#include "memory/object/object_table.h"

#include <algorithm>

#include "core/error.h"

namespace tributary::memory {

ObjectTable::ObjectTable(const SegmentPlace& place, std::uint32_t epoch, Generations generations)
    : place_(place), epoch_(epoch), generations_(generations), arena_(place.pages) {
  TRIB_CHECK(generations.size() == place.pages, .what = "memory: not one generation for each page",
             .found = str(generations.size(), " for ", place.pages, " pages"));
}

std::uint64_t ObjectTable::gva_of(std::uint32_t page) const {
  return GlobalAddress::make(place_.tier, place_.process,
                             place_.offset + std::uint64_t{page} * place_.page_bytes)
      .value()
      .bits();
}

std::optional<SlotId> ObjectTable::reserve(const Key& key, std::uint64_t step, std::uint32_t pages,
                                           Urgency urgency) {
  std::optional<std::vector<PageRun>> runs = arena_.allocate(pages, urgency);
  if (!runs) return std::nullopt;
  const SlotId id{next_slot_++};
  ObjectSlot& slot = slots_[id];
  slot.key = key;
  slot.step = step;
  slot.pages = pages;
  slot.runs = *std::move(runs);
  held_[step] += pages;
  return id;
}

const ObjectSlot& ObjectTable::slot(SlotId id) const {
  const auto found = slots_.find(id);
  TRIB_CHECK(found != slots_.end(), .what = "memory: a slot is free",
             .found = str("slot ", static_cast<std::uint64_t>(id)));
  return found->second;
}

ObjectSlot& ObjectTable::in_state(SlotId id, ObjectState state) {
  const auto found = slots_.find(id);
  TRIB_CHECK(found != slots_.end() && found->second.state == state,
             .what = "memory: a transition of an object from the wrong state",
             .found = found == slots_.end() ? std::string("free")
                                            : str("state ", static_cast<int>(found->second.state)),
             .expected = str("state ", static_cast<int>(state)));
  return found->second;
}

void ObjectTable::begin_write(SlotId id) {
  in_state(id, ObjectState::kReserved).state = ObjectState::kWriting;
}

void ObjectTable::abort(SlotId id) {
  if (slot(id).state != ObjectState::kReserved) in_state(id, ObjectState::kWriting);
  free(id);
}

const ObjectHandle& ObjectTable::seal(SlotId id, const ObjectDescription& description) {
  ObjectSlot& slot = in_state(id, ObjectState::kWriting);
  TRIB_CHECK(description.shape.size() <= kMaxDims, .what = "memory: an object has too many dims",
             .found = str(description.shape.size()), .expected = str("at most ", kMaxDims));
  TRIB_CHECK(description.bytes <= std::uint64_t{slot.pages} * place_.page_bytes,
             .what = "memory: the pages of an object do not hold its bytes",
             .found = str(description.bytes, " B in ", slot.pages, " pages"));
  slot.state = ObjectState::kSealed;
  WireHandle& fields = slot.handle.fields;
  fields = {.key = slot.key,
            .first_gva = gva_of(slot.runs.front().first),
            .generation = ++generation_,
            .bytes = description.bytes,
            .tokens = description.tokens,
            .crc32c = description.crc32c,
            .epoch = epoch_,
            .process = place_.process,
            .tier = static_cast<std::uint8_t>(place_.tier),
            .dtype = static_cast<std::uint8_t>(description.dtype),
            .dims = static_cast<std::uint8_t>(description.shape.size())};
  std::ranges::copy(description.shape, fields.shape);
  if (!description.has_crc) fields.flags |= kNoCrc;
  if (description.is_on_device) fields.flags |= kOnDevice;
  if (slot.runs.size() > kMaxExtents && description.bytes > 0) {
    fields.flags |= kScattered;
  } else {
    std::uint64_t left = description.bytes;  // the last extent ends with the object, not the page
    for (const PageRun& run : slot.runs) {
      const std::uint64_t bytes = std::min(left, std::uint64_t{run.count} * place_.page_bytes);
      if (bytes > 0) slot.handle.extents.push_back({.gva = gva_of(run.first), .bytes = bytes});
      left -= bytes;
    }
    fields.extent_count = static_cast<std::uint8_t>(slot.handle.extents.size());
  }
  store_generation(generations_, slot.runs, generation_);
  by_first_page_[slot.runs.front().first] = id;
  return slot.handle;
}

const ObjectSlot* ObjectTable::find(std::uint64_t gva) const {
  if (gva < gva_of(0)) return nullptr;
  const std::uint64_t bytes = gva - gva_of(0);
  if (bytes % place_.page_bytes != 0 || bytes / place_.page_bytes >= place_.pages) return nullptr;
  const auto found = by_first_page_.find(static_cast<std::uint32_t>(bytes / place_.page_bytes));
  return found == by_first_page_.end() ? nullptr : &slots_.at(found->second);
}

Status ObjectTable::lease(const LeaseHolder& holder, const LeaseEntry& entry, TimePoint now) {
  const std::uint64_t end = gva_of(0) + std::uint64_t{place_.pages} * place_.page_bytes;
  if (entry.gva < gva_of(0) || entry.gva >= end) return Status::kBounds;
  const ObjectSlot* found = find(entry.gva);
  if (found == nullptr || found->handle.fields.generation != entry.generation)
    return Status::kStale;
  const bool is_held = std::ranges::any_of(found->leases, [&](const auto& lease) {
    return lease.first.process == holder.process && lease.first.epoch == holder.epoch;
  });
  if (found->state == ObjectState::kRetired && !is_held) return Status::kStale;
  const SlotId id = by_first_page_.at(found->runs.front().first);
  if (slots_.at(id).leases.emplace(holder, now).second) leased_[holder].push_back(id);
  return Status::kOk;
}

void ObjectTable::unlease(const LeaseHolder& holder) {
  const auto node = leased_.extract(holder);
  if (node.empty()) return;
  for (const SlotId id : node.mapped()) {
    ObjectSlot& slot = slots_.at(id);
    slot.leases.erase(holder);
    if (slot.state == ObjectState::kRetired && slot.leases.empty()) free(id);
  }
}

void ObjectTable::drop_reader(std::uint16_t process, std::uint32_t before_epoch) {
  std::vector<LeaseHolder> dropped;
  for (auto held = leased_.lower_bound({.process = process}); held != leased_.end(); ++held) {
    if (held->first.process != process || held->first.epoch >= before_epoch) break;
    dropped.push_back(held->first);
  }
  for (const LeaseHolder& holder : dropped) unlease(holder);
}

void ObjectTable::retire(SlotId id, ObjectSlot& slot) {
  slot.state = ObjectState::kRetired;
  retired_.insert(id);
  if (slot.leases.empty()) free(id);
}

void ObjectTable::retire_through(std::uint64_t step) {
  for (auto next = slots_.begin(); next != slots_.end();) {
    const auto slot = next++;  // retire() may erase it
    if (slot->second.state == ObjectState::kSealed && slot->second.step <= step)
      retire(slot->first, slot->second);
  }
}

bool ObjectTable::revoke(SlotId id) {
  const auto found = slots_.find(id);
  if (found == slots_.end() || found->second.state != ObjectState::kSealed ||
      !found->second.leases.empty())
    return false;
  retire(id, found->second);
  return true;
}

void ObjectTable::expire_leases(TimePoint now) {
  std::vector<SlotId> expired;
  for (const SlotId id : retired_) {
    const bool is_old = std::ranges::all_of(
        slots_.at(id).leases, [&](const auto& lease) { return now - lease.second > kLeaseTtl; });
    if (is_old) expired.push_back(id);
  }
  for (const SlotId id : expired) {
    for (const auto& [holder, taken] : slots_.at(id).leases) {
      std::vector<SlotId>& held = leased_.at(holder);
      std::erase(held, id);
      if (held.empty()) leased_.erase(holder);
    }
    free(id);
  }
}

void ObjectTable::free(SlotId id) {
  const auto node = slots_.extract(id);
  const ObjectSlot& slot = node.mapped();
  if (slot.state == ObjectState::kRetired) {
    clear_generation(generations_, slot.runs);
    by_first_page_.erase(slot.runs.front().first);
    retired_.erase(id);
  }
  const auto held = held_.find(slot.step);
  held->second -= slot.pages;
  if (held->second == 0) held_.erase(held);
  arena_.free(slot.runs);
}

}  // namespace tributary::memory
