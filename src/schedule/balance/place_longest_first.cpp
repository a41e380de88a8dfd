#include "schedule/balance/place_longest_first.h"

#include <algorithm>
#include <numeric>
#include <tuple>

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
  [[nodiscard]] std::size_t choose(std::int32_t item) const {
    const std::int64_t* added = partition_.item(item);
    std::size_t best = 0;
    Merit best_merit = judge(heap_[0], added);
    for (std::size_t place = 1; place < std::min<std::size_t>(heap_.size(), kMostCandidates);
         ++place) {
      const Merit merit = judge(heap_[place], added);
      if (merit < best_merit) std::tie(best, best_merit) = std::tuple(place, merit);
    }
    return best;
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
  struct Merit {
    std::int64_t value;
    std::int64_t sum;
    std::int32_t bucket;
    auto operator<=>(const Merit&) const = default;
  };

  [[nodiscard]] Merit judge(std::int32_t bucket, const std::int64_t* added) const {
    const std::int64_t* loads = partition_.bucket(bucket);
    Merit merit = {.value = 0, .sum = 0, .bucket = bucket};
    for (std::int32_t d = 0; d < partition_.dimensions(); ++d) {
      merit.value = std::max(merit.value, loads[d] + added[d]);
      merit.sum += loads[d];
    }
    return merit;
  }
  [[nodiscard]] std::pair<std::int64_t, std::int32_t> key(std::size_t place) const {
    return {partition_.value(heap_[place]), heap_[place]};
  }

  const Partition& partition_;
  std::vector<std::int32_t> heap_;
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
