#include "schedule/pack_online.h"

#include <numeric>
#include <utility>

#include "core/error.h"
#include "schedule/best_fit.h"

namespace tributary::schedule {

PackedBins pack_online(std::span<const Tokens> lengths, Tokens capacity) {
  check_lengths(lengths, capacity);
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  return best_fit(lengths, capacity, order);
}

namespace {

const OnlinePackerOptions& checked(const OnlinePackerOptions& options) {
  check_lengths({}, options.capacity);
  TRIB_REQUIRE(options.close_below >= Tokens{1}, .what = "schedule: bins can never close",
               .where = "close_below", .found = str(options.close_below),
               .expected = "at least 1 token");
  TRIB_REQUIRE(options.max_waiting >= 0, .what = "schedule: waiting time below 0",
               .where = "max_waiting", .found = str(options.max_waiting, " arrivals"));
  return options;
}

}  // namespace

OnlinePacker::OnlinePacker(const OnlinePackerOptions& options, const OnlinePackerState& state)
    : options_(checked(options)), arrivals_(state.arrivals), open_(options.capacity.count) {
  std::int64_t last = -1;
  for (const WaitingBin& bin : state.waiting) {
    const bool is_sound = last < bin.opened_at && bin.opened_at < state.arrivals &&
                          !bin.samples.empty() && bin.used >= Tokens{std::ssize(bin.samples)} &&
                          room(bin) >= options_.close_below;
    TRIB_REQUIRE(
        is_sound, .what = "schedule: packing buffer does not fit the run",
        .where = str("bin opened at ", bin.opened_at),
        .found = str(bin.samples.size(), " samples, ", bin.used, ", ", state.arrivals, " arrivals"),
        .expected = str("a waiting bin of capacity ", options_.capacity, ", the oldest first"));
    last = bin.opened_at;
    const std::int32_t slot = open_slot();
    slots_[slot] = bin;
    by_age_.emplace(bin.opened_at, slot);
    open_.insert(slot, room(bin).count, bin.opened_at);
  }
}

std::int32_t OnlinePacker::open_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::int32_t>(slots_.size()) - 1;
  }
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

/// Closes a bin that is already removed from the open ones.
ClosedBin OnlinePacker::close(std::int32_t slot) {
  WaitingBin bin = std::exchange(slots_[slot], {});
  by_age_.erase(bin.opened_at);
  free_slots_.push_back(slot);
  return {std::move(bin.samples), bin.used, arrivals_ - 1 - bin.opened_at};
}

std::vector<ClosedBin> OnlinePacker::add(std::int64_t sample, Tokens length) {
  TRIB_REQUIRE(Tokens{1} <= length && length <= options_.capacity,
               .what = "schedule: sample does not fit into a bin", .where = str("sample ", sample),
               .found = str(length), .expected = str("1 to ", options_.capacity),
               .fix = "raise batch.capacity_tokens or drop the sample");
  std::int32_t slot = open_.take_best(length.count);
  if (slot == OpenBins::kNone) {
    slot = open_slot();
    slots_[slot].opened_at = arrivals_;
    by_age_.emplace(arrivals_, slot);
  }
  ++arrivals_;
  WaitingBin& bin = slots_[slot];
  bin.samples.push_back(sample);
  bin.used += length;
  std::vector<ClosedBin> closed;
  if (room(bin) < options_.close_below) {
    closed.push_back(close(slot));
  } else {
    open_.insert(slot, room(bin).count, bin.opened_at);
  }
  while (options_.max_waiting > 0 && !by_age_.empty() &&
         arrivals_ - 1 - by_age_.begin()->first >= options_.max_waiting) {
    closed.push_back(close_oldest());
  }
  return closed;
}

/// Removes the oldest bin of all, which is also the oldest of those with its room.
ClosedBin OnlinePacker::close_oldest() {
  const std::int32_t slot = by_age_.begin()->second;
  (void)open_.take_oldest(room(slots_[slot]).count);
  return close(slot);
}

std::vector<ClosedBin> OnlinePacker::flush() {
  std::vector<ClosedBin> closed;
  while (!by_age_.empty()) closed.push_back(close_oldest());
  return closed;
}

OnlinePackerState OnlinePacker::state() const {
  OnlinePackerState state = {.arrivals = arrivals_, .waiting = {}};
  for (const auto& [age, slot] : by_age_) state.waiting.push_back(slots_[slot]);
  return state;
}

}  // namespace tributary::schedule
