#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"
#include "schedule/balance/effort.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {

/// Items that moved recently and must stay, so that a search that went uphill does not go straight
/// back. A move to a value never seen before is always allowed.
///
/// source: Glover 1989, "Tabu search, part I"; the length varies so that no cycle repeats
class Tabu {
 public:
  explicit Tabu(std::int32_t items) : until_(static_cast<std::size_t>(items)) {}

  void next_step() { ++step_; }
  void set_best_value(std::int64_t value) { best_value_ = value; }

  [[nodiscard]] bool allows(std::int32_t item, std::int64_t value) const {
    return until_[item] <= step_ || value < best_value_;
  }
  void hold(std::int32_t item) {
    until_[item] =
        step_ + kShortest + static_cast<std::int64_t>(mix_bits(step_) % std::uint64_t{kVariation});
  }
  /// Lets all items move again.
  void release() { step_ += kShortest + kVariation; }

 private:
  static constexpr std::int64_t kShortest = 8;
  static constexpr std::int64_t kVariation = 16;

  std::vector<std::int64_t> until_;  // [items] the step from which it may move again
  std::int64_t step_ = 0;
  std::int64_t best_value_ = std::numeric_limits<std::int64_t>::max();
};

/// A move of an item out of the worst bucket, or its exchange for an item of another bucket.
struct Exchange {
  std::int64_t value = 0;  // max of both buckets afterwards
  std::int32_t given = Partition::kNowhere;
  std::int32_t taken = Partition::kNowhere;  // kNowhere: a move
  std::int32_t bucket = Partition::kNowhere;

  [[nodiscard]] bool is_found() const { return given != Partition::kNowhere; }
};

/// Finds the exchange after which the larger of the two buckets is smallest, and below `below`.
/// Items in `tabu` do not move. Ties take the first found.
///
/// units:  finds nothing when nothing helps, or the effort was used up first
/// cost:   O(members * (buckets + items with nearly the same load))
[[nodiscard]] Exchange find_exchange(const Partition& partition, std::int32_t worst,
                                     std::int64_t below, const Tabu& tabu, Effort& effort);

void apply(Partition& partition, const Exchange& exchange);

}  // namespace tributary::schedule
