#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedule/balance/balance.h"

namespace tributary::schedule {

/// An arrangement during a search: items in a canonical order, loads of buckets, bucket of each
/// item.
///
/// Items are numbered by max load, descending, then by all their loads, so that equal problems look
/// equal whatever the order of the items. `order()` gives the caller's numbers.
class Partition {
 public:
  static constexpr std::int32_t kNowhere = -1;

  /// Places nothing yet. The problem has passed check_problem().
  explicit Partition(const BalanceProblem& problem);

  [[nodiscard]] std::int32_t items() const { return static_cast<std::int32_t>(order_.size()); }
  [[nodiscard]] std::int32_t buckets() const { return static_cast<std::int32_t>(members_.size()); }
  [[nodiscard]] std::int32_t dimensions() const { return dimensions_; }
  [[nodiscard]] std::span<const std::int32_t> order() const { return order_; }

  [[nodiscard]] const std::int64_t* item(std::int32_t item) const {
    return &item_loads_[static_cast<std::size_t>(item) * dimensions_];
  }
  [[nodiscard]] const std::int64_t* bucket(std::int32_t bucket) const {
    return &bucket_loads_[static_cast<std::size_t>(bucket) * dimensions_];
  }
  [[nodiscard]] std::int32_t bucket_of(std::int32_t item) const { return bucket_of_[item]; }
  [[nodiscard]] std::span<const std::int32_t> members(std::int32_t bucket) const {
    return members_[bucket];
  }
  /// What every bucket holds beforehand; empty: nothing.
  [[nodiscard]] std::span<const std::int64_t> held() const { return held_; }
  /// The max load of a bucket.
  [[nodiscard]] std::int64_t value(std::int32_t bucket) const { return value_[bucket]; }
  /// The bucket with the max value; ties take the lowest number.
  [[nodiscard]] std::int32_t worst() const;
  /// The dimension of a bucket's max load; ties take the lowest.
  [[nodiscard]] std::int32_t critical_dimension(std::int32_t bucket) const;
  /// Items ascending by their load in one dimension; ties by number. Sorted on first use.
  [[nodiscard]] std::span<const std::int32_t> ascending(std::int32_t dimension) const {
    if (ascending_[dimension].empty()) sort_ascending(dimension);
    return ascending_[dimension];
  }
  /// The index in ascending() of the first load that is at least `load`.
  [[nodiscard]] std::ptrdiff_t first_at_least(std::int32_t dimension, std::int64_t load) const;

  /// Moves an item into a bucket, out of its present one.
  void move(std::int32_t item, std::int32_t bucket);
  /// The bucket of each of the caller's items.
  [[nodiscard]] std::vector<std::int32_t> assignment() const;

 private:
  void add(std::int32_t item, std::int32_t bucket, std::int64_t sign);
  void sort_ascending(std::int32_t dimension) const;

  std::int32_t dimensions_;
  std::vector<std::int32_t> order_;         // [items] the caller's number
  std::vector<std::int64_t> held_;          // [dimensions], or empty
  std::vector<std::int64_t> item_loads_;    // [items, dimensions]
  std::vector<std::int64_t> bucket_loads_;  // [buckets, dimensions]
  std::vector<std::int64_t> value_;         // [buckets]
  std::vector<std::int32_t> bucket_of_;     // [items]
  std::vector<std::int32_t> place_;         // [items] index in members_
  std::vector<std::vector<std::int32_t>> members_;
  mutable std::vector<std::vector<std::int32_t>> ascending_;  // [dimensions][items], or empty
};

/// Value of `bucket` after `in` has come and `out` has left. Either may be null.
[[nodiscard]] inline std::int64_t value_after(const Partition& partition, std::int32_t bucket,
                                              const std::int64_t* in, const std::int64_t* out) {
  const std::int64_t* loads = partition.bucket(bucket);
  std::int64_t value = 0;
  for (std::int32_t d = 0; d < partition.dimensions(); ++d) {
    value = std::max(value, loads[d] + (in == nullptr ? 0 : in[d]) - (out == nullptr ? 0 : out[d]));
  }
  return value;
}

/// The best arrangement that a search has seen, to restore at the end.
class BestArrangement {
 public:
  [[nodiscard]] std::int64_t value() const { return value_; }

  /// Stores the arrangement, whose max load is `value`, if it is better than the stored one;
  /// returns whether it is.
  bool offer(const Partition& partition, std::int64_t value) {
    if (value >= value_) return false;
    value_ = value;
    bucket_of_.resize(static_cast<std::size_t>(partition.items()));
    for (std::int32_t item = 0; item < partition.items(); ++item)
      bucket_of_[item] = partition.bucket_of(item);
    return true;
  }
  /// Moves every item back to where the best arrangement has it.
  void restore(Partition& partition) const {
    for (std::int32_t item = 0; item < std::ssize(bucket_of_); ++item)
      if (partition.bucket_of(item) != bucket_of_[item]) partition.move(item, bucket_of_[item]);
  }

 private:
  std::vector<std::int32_t> bucket_of_;  // [items]
  std::int64_t value_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace tributary::schedule
