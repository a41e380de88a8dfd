#include "schedule/balance/place_longest_first.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

namespace tributary::schedule {
namespace {

/// Buckets by value, the least in front: a binary heap whose front part is looked at as a whole.
class BucketHeap {
 public:
  explicit BucketHeap(const Partition& partition) : partition_(partition) {
    heap_.resize(static_cast<std::size_t>(partition.buckets()));
    std::iota(heap_.begin(), heap_.end(), 0);
  }

  /// The place of the best of the candidates for an item.
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
  [[nodiscard]] std::int32_t bucket(std::size_t place) const { return heap_[place]; }

  /// Restores the order after the bucket at `place` grew.
  void sink(std::size_t place) {
    for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size() && key(child + 1) < key(child)) ++child;
      if (key(place) < key(child)) break;
      std::swap(heap_[place], heap_[child]);
      place = child;
    }
  }

 private:
  /// The least value with the item, then the least sum of loads, then the lowest number. No bucket
  /// below one in the heap has a lesser value, so that most are never looked at.
  template <class Dimensions>
  [[nodiscard]] std::size_t choose_of(const std::int64_t* added, Dimensions dimensions) {
    const std::int64_t grows_by = *std::min_element(added, added + dimensions);
    const std::size_t candidates = std::min<std::size_t>(heap_.size(), kMostCandidates);
    std::size_t best = 0;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    open_.assign(1, 0);
    while (!open_.empty()) {
      const std::size_t place = open_.back();
      open_.pop_back();
      if (partition_.value(heap_[place]) + grows_by > least) continue;
      const std::int64_t* loads = partition_.bucket(heap_[place]);
      std::int64_t value = 0;
      for (std::int32_t d = 0; d < dimensions; ++d) value = std::max(value, loads[d] + added[d]);
      if (value < least || (value == least && is_lighter(heap_[place], heap_[best]))) {
        best = place;
        least = value;
        if (partition_.value(heap_[place]) == 0) return best;  // the first one that is empty
      }
      for (std::size_t child = 2 * place + 1; child <= 2 * place + 2; ++child)
        if (child < candidates && partition_.value(heap_[child]) + grows_by <= least)
          open_.push_back(child);
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
  [[nodiscard]] std::pair<std::int64_t, std::int32_t> key(std::size_t place) const {
    return {partition_.value(heap_[place]), heap_[place]};
  }

  const Partition& partition_;
  std::vector<std::int32_t> heap_;
  std::vector<std::size_t> open_;  // places to look at
};

/// With items enough for all buckets only an item without load leaves one empty.
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
