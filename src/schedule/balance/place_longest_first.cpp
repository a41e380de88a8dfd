#include "schedule/balance/place_longest_first.h"

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace tributary::schedule {
namespace {

/// Buckets by value, the least first: a binary heap whose front part is searched as a whole.
class BucketHeap {
 public:
  explicit BucketHeap(const Partition& partition) : partition_(partition) {
    for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket)
      heap_.push_back({partition.value(bucket), bucket});
  }

  /// The place of the best candidate for an item.
  [[nodiscard]] std::size_t choose(std::int32_t item) {
    const std::int64_t* added = partition_.item(item);
    switch (partition_.dimensions()) {
      case 1:
        return choose_of(added, std::integral_constant<std::int32_t, 1>());
      case 2:
        return choose_of(added, std::integral_constant<std::int32_t, 2>());
      default:
        return choose_of(added, partition_.dimensions());
    }
  }
  [[nodiscard]] std::int32_t bucket(std::size_t place) const { return heap_[place].bucket; }

  /// Restores the order after the bucket at `place` grew.
  void sink(std::size_t place) {
    const Entry grown{partition_.value(heap_[place].bucket), heap_[place].bucket};
    for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (grown < heap_[child]) break;
      heap_[place] = heap_[child];
      place = child;
    }
    heap_[place] = grown;
  }

 private:
  struct Entry {
    std::int64_t value = 0;
    std::int32_t bucket = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  /// Finds the least value with the item, then the least sum of loads, then the lowest number.
  /// Buckets below one in the heap have no smaller value, so most are never looked at.
  template <class Dimensions>
  [[nodiscard]] std::size_t choose_of(const std::int64_t* added, Dimensions dimensions) {
    const std::int64_t grows_by = *std::min_element(added, added + dimensions);
    const std::size_t candidates = std::min<std::size_t>(heap_.size(), kMaxCandidates);
    std::size_t best = 0;
    std::int64_t min = std::numeric_limits<std::int64_t>::max();
    std::size_t open = 0;
    open_[open++] = 0;
    while (open > 0) {
      const std::size_t place = open_[--open];
      const Entry& entry = heap_[place];
      if (entry.value + grows_by > min) continue;
      const std::int64_t* loads = partition_.bucket(entry.bucket);
      std::int64_t value = 0;
      for (std::int32_t d = 0; d < dimensions; ++d) value = std::max(value, loads[d] + added[d]);
      if (value < min || (value == min && is_lighter(entry.bucket, heap_[best].bucket))) {
        best = place;
        min = value;
        // An empty bucket cannot be beaten.
        if (entry.value == 0 || partition_.members(entry.bucket).empty()) return best;
      }
      for (std::size_t child = 2 * place + 1; child <= 2 * place + 2; ++child)
        if (child < candidates && heap_[child].value + grows_by <= min) open_[open++] = child;
    }
    return best;
  }
  [[nodiscard]] bool is_lighter(std::int32_t bucket, std::int32_t than) const {
    const auto weight = [&](std::int32_t each) {
      const std::int64_t* loads = partition_.bucket(each);
      return std::pair(std::accumulate(loads, loads + partition_.dimensions(), std::int64_t{0}),
                       each);
    };
    return weight(bucket) < weight(than);
  }

  const Partition& partition_;
  std::vector<Entry> heap_;
  std::array<std::size_t, kMaxCandidates + 1> open_ = {};  // places still to look at
};

/// Where items are enough for all buckets, only items without load can leave one empty.
void fill_empty_buckets(Partition& partition) {
  std::vector<std::int32_t> fullest(static_cast<std::size_t>(partition.buckets()));
  std::iota(fullest.begin(), fullest.end(), 0);
  std::stable_sort(fullest.begin(), fullest.end(), [&](std::int32_t a, std::int32_t b) {
    return partition.value(a) > partition.value(b);
  });
  auto giver = fullest.begin();
  for (std::int32_t bucket = 0; bucket < partition.buckets(); ++bucket) {
    if (!partition.members(bucket).empty()) continue;
    while (giver != fullest.end() && partition.members(*giver).size() < 2) ++giver;
    if (giver == fullest.end()) return;  // fewer items than buckets
    const auto members = partition.members(*giver);
    partition.move(*std::max_element(members.begin(), members.end()), bucket);
  }
}

}  // namespace

void place_longest_first(Partition& partition) {
  BucketHeap heap(partition);
  for (std::int32_t item = 0; item < partition.items(); ++item) {
    const std::size_t place = heap.choose(item);
    partition.move(item, heap.bucket(place));
    heap.sink(place);
  }
  fill_empty_buckets(partition);
}

}  // namespace tributary::schedule
