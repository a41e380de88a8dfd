#include "schedule/balance/branch_and_bound.h"

#include <algorithm>

namespace tributary::schedule {
namespace {

std::vector<std::int64_t> loads_of_items(const Partition& partition) {
  const std::size_t size = static_cast<std::size_t>(partition.items()) * partition.dimensions();
  return size == 0 ? std::vector<std::int64_t>()
                   : std::vector<std::int64_t>(partition.item(0), partition.item(0) + size);
}

class Search {
 public:
  Search(const Partition& partition, std::int64_t bound, Effort& effort)
      : partition_(partition),
        bound_(bound),
        effort_(effort),
        loads_(static_cast<std::size_t>(partition.buckets()) * partition.dimensions()),
        count_(static_cast<std::size_t>(partition.buckets())),
        chosen_(static_cast<std::size_t>(partition.items())),
        best_value_(partition.value(partition.worst())),
        rest_(loads_of_items(partition)),
        smallest_(rest_) {
    for (std::size_t i = 0; !partition.held().empty() && i < loads_.size(); ++i)
      loads_[i] = partition.held()[i % partition.held().size()];
    const std::size_t row = partition.dimensions();
    for (std::size_t i = rest_.size(); i-- > row;) {
      rest_[i - row] += rest_[i];
      smallest_[i - row] = std::min(smallest_[i - row], smallest_[i]);
    }
  }

  /// Returns true when it has looked at everything.
  bool run() {
    empty_ = partition_.buckets();
    place(0);
    return !effort_.used_up() || best_value_ <= bound_;
  }
  [[nodiscard]] std::span<const std::int32_t> best() const { return best_; }

 private:
  void place(std::int32_t item) {
    if (item == partition_.items()) {
      best_ = chosen_;  // every bucket was below the best value when it was chosen
      best_value_ = *std::max_element(loads_.begin(), loads_.end());
      return;
    }
    if (!rest_may_fit(item)) return;
    for (std::int32_t bucket = 0; bucket < partition_.buckets(); ++bucket) {
      if (best_value_ <= bound_ || !effort_.spend(1)) return;
      if (!is_worth_trying(item, bucket)) continue;
      put(item, bucket, +1);
      place(item + 1);
      put(item, bucket, -1);
    }
  }

  /// Room that no remaining item fits into is lost; the other buckets must hold the rest.
  [[nodiscard]] bool rest_may_fit(std::int32_t item) const {
    const std::size_t row = static_cast<std::size_t>(item) * partition_.dimensions();
    for (std::int32_t d = 0; d < partition_.dimensions(); ++d) {
      std::int64_t room = 0;
      for (std::int32_t bucket = 0; bucket < partition_.buckets(); ++bucket) {
        if (is_alive(bucket, row)) room += best_value_ - 1 - loads_of(bucket)[d];
        if (room >= rest_[row + d]) break;
      }
      if (room < rest_[row + d]) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_alive(std::int32_t bucket, std::size_t row) const {
    for (std::int32_t d = 0; d < partition_.dimensions(); ++d) {
      if (loads_of(bucket)[d] + smallest_[row + d] >= best_value_) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_worth_trying(std::int32_t item, std::int32_t bucket) const {
    const std::int64_t* added = partition_.item(item);
    const std::int64_t* loads = loads_of(bucket);
    for (std::int32_t d = 0; d < partition_.dimensions(); ++d) {
      if (loads[d] + added[d] >= best_value_) return false;
    }
    // The remaining items must be enough for the buckets that have none.
    const std::int32_t left = partition_.items() - item - 1;
    if (count_[bucket] > 0 && empty_ > left && partition_.items() >= partition_.buckets()) {
      return false;
    }
    for (std::int32_t other = 0; other < bucket; ++other) {
      if ((count_[other] == 0) == (count_[bucket] == 0) &&
          std::equal(loads, loads + partition_.dimensions(), loads_of(other))) {
        return false;
      }
    }
    return true;
  }

  void put(std::int32_t item, std::int32_t bucket, std::int32_t sign) {
    std::int64_t* loads = &loads_[static_cast<std::size_t>(bucket) * partition_.dimensions()];
    for (std::int32_t d = 0; d < partition_.dimensions(); ++d) {
      loads[d] += sign * partition_.item(item)[d];
    }
    const bool was_empty = count_[bucket] == 0;
    count_[bucket] += sign;
    empty_ += static_cast<int>(count_[bucket] == 0) - static_cast<int>(was_empty);
    chosen_[item] = bucket;
  }

  [[nodiscard]] const std::int64_t* loads_of(std::int32_t bucket) const {
    return &loads_[static_cast<std::size_t>(bucket) * partition_.dimensions()];
  }

  const Partition& partition_;
  std::int64_t bound_;
  Effort& effort_;
  std::vector<std::int64_t> loads_;  // [buckets, dimensions]
  std::vector<std::int32_t> count_;  // [buckets]
  std::int32_t empty_ = 0;
  std::vector<std::int32_t> chosen_;  // [items]
  std::vector<std::int32_t> best_;    // empty: nothing better than the start
  std::int64_t best_value_;
  std::vector<std::int64_t> rest_;      // [items, dimensions]: sums from an item on
  std::vector<std::int64_t> smallest_;  // [items, dimensions]: smallest loads from an item on
};

}  // namespace

bool branch_and_bound(Partition& partition, std::int64_t bound, Effort& effort) {
  Search search(partition, bound, effort);
  const bool is_proven = search.run();
  for (std::int32_t item = 0; item < std::ssize(search.best()); ++item) {
    partition.move(item, search.best()[item]);
  }
  return is_proven;
}

}  // namespace tributary::schedule
