#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tributary::schedule {

/// The bins that still take items, found by the room they have left.
///
/// Two exact structures: a 64-ary tree of bit words over the room values, which finds the least
/// value that is large enough, and for each value a pairing heap of its bins, which gives the
/// oldest. units:  room in tokens, 0 to capacity; bins by number from 0; a lower age is older cost:
/// O(log64 capacity + log bins) amortised; 4 bytes and 1 bit for each token of capacity source:
/// Fredman 1986, "The pairing heap: a new form of self-adjusting heap"; the paper that
///         names best fit (FlowTrain, algorithm 1) descends a binary tree of maxima in its place
class OpenBins {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit OpenBins(std::int64_t capacity);

  /// Makes a bin findable; it is not in already.
  void insert(std::int32_t bin, std::int64_t room, std::int64_t age);
  /// Takes out the oldest bin among those with the least room of at least `length`; or kNone.
  [[nodiscard]] std::int32_t take_best(std::int64_t length);
  /// Takes out the oldest bin among those with exactly this room, of which there is one at least.
  std::int32_t take_oldest(std::int64_t room);

 private:
  struct Node {
    std::int64_t age;
    std::int32_t child;
    std::int32_t sibling;
  };

  [[nodiscard]] std::int32_t meld(std::int32_t a, std::int32_t b);
  [[nodiscard]] std::int32_t meld_children(std::int32_t first);
  [[nodiscard]] std::int64_t least_room(std::int64_t at_least) const;
  [[nodiscard]] bool has_room(std::int64_t room) const;
  void mark(std::int64_t room);
  void unmark(std::int64_t room);

  std::vector<std::vector<std::uint64_t>> levels_;  // bits of rooms, then of words with bits
  std::unique_ptr<std::int32_t[]> heaps_;           // by room: oldest bin; valid where marked
  std::vector<Node> nodes_;                         // by bin
};

}  // namespace tributary::schedule
