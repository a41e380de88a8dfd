#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/units.h"
#include "schedule/open_bins.h"
#include "schedule/packed_bins.h"

namespace tributary::schedule {

/// Packs items in their order, each into the fullest bin that has room; ties take the oldest.
///
/// shape:  lengths [items], each 1 to capacity -> bins in the order in which they were opened
/// errors: Fault::kInput naming the item that is longer than the capacity
/// cost:   O(items log) time; 16,384 items at 32,768: 0.7 ms (bench/schedule/pack_bench)
/// source: FlowTrain, algorithm 1; at most 1.7 times the fewest bins (Johnson 1974)
[[nodiscard]] PackedBins pack_online(std::span<const Tokens> lengths, Tokens capacity);

struct OnlinePackerOptions {
  Tokens capacity;
  Tokens close_below = {1};      // a bin with less room is closed: no item is that short
  std::int64_t max_waiting = 0;  // a bin is closed after this many further arrivals; 0: never
};

/// An open bin.
struct WaitingBin {
  std::int64_t opened_at = 0;         // arrivals before its first sample
  std::vector<std::int64_t> samples;  // ids, in order of arrival
  Tokens used;

  friend bool operator==(const WaitingBin&, const WaitingBin&) = default;
};

/// All state that packing continues from: the packing buffer of a checkpoint.
struct OnlinePackerState {
  std::int64_t arrivals = 0;
  std::vector<WaitingBin> waiting;  // the oldest first

  friend bool operator==(const OnlinePackerState&, const OnlinePackerState&) = default;
};

/// A finished bin.
struct ClosedBin {
  std::vector<std::int64_t> samples;
  Tokens used;
  std::int64_t waited = 0;  // arrivals after its first sample
};

/// Packs an endless stream as pack_online() does, closing bins as they fill or grow old.
///
/// The result is a function of the options and the samples so far. A packer that is made from the
/// state of another one continues as that one would.
class OnlinePacker {
 public:
  /// errors: Fault::kInput when the options are out of range, or the state does not fit this
  ///         capacity
  explicit OnlinePacker(const OnlinePackerOptions& options, const OnlinePackerState& state = {});

  /// Adds a sample; returns the bins that this closes: the one it fills, then those too old.
  ///
  /// errors: Fault::kInput naming the sample when it is longer than the capacity
  [[nodiscard]] std::vector<ClosedBin> add(std::int64_t sample, Tokens length);
  /// Closes all bins, the oldest first.
  [[nodiscard]] std::vector<ClosedBin> flush();

  [[nodiscard]] OnlinePackerState state() const;

 private:
  [[nodiscard]] Tokens room(const WaitingBin& bin) const { return options_.capacity - bin.used; }
  [[nodiscard]] std::int32_t open_slot();
  [[nodiscard]] ClosedBin close(std::int32_t slot);
  [[nodiscard]] ClosedBin close_oldest();

  OnlinePackerOptions options_;
  std::int64_t arrivals_ = 0;
  std::vector<WaitingBin> slots_;
  std::vector<std::int32_t> free_slots_;
  std::map<std::int64_t, std::int32_t> by_age_;  // opened_at -> slot
  OpenBins open_;
};

}  // namespace tributary::schedule
