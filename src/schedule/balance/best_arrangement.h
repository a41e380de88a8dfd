#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/balance/partition.h"

namespace tributary::schedule {

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
