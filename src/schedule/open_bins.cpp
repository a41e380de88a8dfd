#include "schedule/open_bins.h"

#include <bit>
#include <utility>

namespace tributary::schedule {
namespace {

constexpr std::int64_t kBits = 64;
constexpr std::int64_t kNoRoom = -1;

}  // namespace

OpenBins::OpenBins(std::int64_t capacity)
    : heaps_(std::make_unique_for_overwrite<std::int32_t[]>(capacity + 1)) {
  std::int64_t size = capacity + 1;
  do {
    size = (size + kBits - 1) / kBits;
    levels_.emplace_back(size);
  } while (size > 1);
}

void OpenBins::insert(std::int32_t bin, std::int64_t room, std::int64_t age) {
  if (bin >= std::ssize(nodes_)) nodes_.resize(bin + 1);
  nodes_[bin] = {.age = age, .child = kNone, .sibling = kNone};
  heaps_[room] = has_room(room) ? meld(heaps_[room], bin) : bin;
  mark(room);
}

std::int32_t OpenBins::take_best(std::int64_t length) {
  const std::int64_t room = min_room(length);
  return room == kNoRoom ? kNone : take_oldest(room);
}

std::int32_t OpenBins::take_oldest(std::int64_t room) {
  const std::int32_t oldest = heaps_[room];
  heaps_[room] = meld_children(nodes_[oldest].child);
  if (heaps_[room] == kNone) unmark(room);
  return oldest;
}

/// Joins two heaps; returns the root, the older of both.
std::int32_t OpenBins::meld(std::int32_t a, std::int32_t b) {
  if (nodes_[b].age < nodes_[a].age) std::swap(a, b);
  nodes_[b].sibling = nodes_[a].child;
  nodes_[a].child = b;
  return a;
}

/// Joins a list of siblings: in pairs from the left, then the pairs from the right.
std::int32_t OpenBins::meld_children(std::int32_t first) {
  std::int32_t pairs = kNone;  // linked by sibling, the last pair first
  while (first != kNone) {
    std::int32_t one = first;
    first = nodes_[one].sibling;
    if (first != kNone) {
      const std::int32_t other = first;
      first = nodes_[other].sibling;
      one = meld(one, other);
    }
    nodes_[one].sibling = pairs;
    pairs = one;
  }
  if (pairs == kNone) return kNone;
  std::int32_t root = pairs;
  std::int32_t rest = nodes_[root].sibling;
  while (rest != kNone) {
    const std::int32_t next = nodes_[rest].sibling;
    root = meld(root, rest);
    rest = next;
  }
  nodes_[root].sibling = kNone;
  return root;
}

bool OpenBins::has_room(std::int64_t room) const {
  return (levels_[0][room / kBits] >> (room % kBits) & 1) != 0;
}

void OpenBins::mark(std::int64_t room) {
  for (auto& level : levels_) {
    std::uint64_t& word = level[room / kBits];
    const bool was_empty = word == 0;
    word |= std::uint64_t{1} << (room % kBits);
    if (!was_empty) return;
    room /= kBits;
  }
}

void OpenBins::unmark(std::int64_t room) {
  for (auto& level : levels_) {
    std::uint64_t& word = level[room / kBits];
    word &= ~(std::uint64_t{1} << (room % kBits));
    if (word != 0) return;
    room /= kBits;
  }
}

/// Climbs until a word has a bit at or after the place, then descends to the first such bit.
std::int64_t OpenBins::min_room(std::int64_t at_least) const {
  std::int64_t place = at_least;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::int64_t word = place / kBits;
    if (word >= std::ssize(levels_[level])) return kNoRoom;
    const std::uint64_t later = levels_[level][word] >> (place % kBits);
    if (later != 0) {
      place += std::countr_zero(later);
      while (level-- > 0) place = place * kBits + std::countr_zero(levels_[level][place]);
      return place;
    }
    place = word + 1;
  }
  return kNoRoom;
}

}  // namespace tributary::schedule
