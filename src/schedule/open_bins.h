#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tributary::schedule {

/// The bins that still take items, found by their room.
///
/// Two exact structures: a 64-ary tree of bit words over the room values, which finds the least
/// value that is large enough, and for each value a pairing heap of its bins, which gives the
/// oldest.
///
/// units:  room in tokens, 0 to capacity; bins by number from 0; a lower age is older
/// cost:   O(log64 capacity + log bins) amortised; 4 bytes and 1 bit for each token of capacity
/// source: Fredman 1986, "The pairing heap: a new form of self-adjusting heap"; the paper that
///         names best fit (FlowTrain, algorithm 1) descends a binary tree of maxima instead
class OpenBins {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit OpenBins(std::int64_t capacity);

  /// Inserts a bin that is not in.
  void insert(std::int32_t bin, std::int64_t room, std::int64_t age);
  /// Removes and returns the oldest bin among those with the least room from `length` on; or kNone.
  [[nodiscard]] std::int32_t take_best(std::int64_t length);
  /// Removes and returns the oldest bin with exactly this room; there must be one.
  std::int32_t take_oldest(std::int64_t room);

 private:
  struct Node {
    std::int64_t age;
    std::int32_t child;
    std::int32_t sibling;
  };

  [[nodiscard]] std::int32_t meld(std::int32_t a, std::int32_t b);
  [[nodiscard]] std::int32_t meld_children(std::int32_t first);
  [[nodiscard]] std::int64_t min_room(std::int64_t at_least) const;
  [[nodiscard]] bool has_room(std::int64_t room) const;
  void mark(std::int64_t room);
  void unmark(std::int64_t room);

  std::vector<std::vector<std::uint64_t>> levels_;  // bits of rooms, then of non-zero words
  std::unique_ptr<std::int32_t[]> heaps_;           // [room] oldest bin; valid where the bit is set
  std::vector<Node> nodes_;                         // by bin
};

}  // namespace tributary::schedule
