#include "schedule/balance/lower_excess.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>

#include "core/random.h"
#include "schedule/balance/partition.h"

namespace tributary::schedule {
namespace {

constexpr std::size_t kPartners = 24;   // max buckets paired with one in a step
constexpr std::size_t kExchanged = 12;  // max items of a bucket tried in a step

/// All choices of up to two items of a bucket.
struct Subsets {
  std::vector<std::array<std::int32_t, 2>> items;  // kNowhere: none
  std::vector<std::int64_t> loads;                 // [subsets, dimensions]

  [[nodiscard]] std::int32_t size(std::size_t subset) const {
    return static_cast<std::int32_t>(items[subset][0] != Partition::kNowhere) +
           static_cast<std::int32_t>(items[subset][1] != Partition::kNowhere);
  }
};

/// given: a subset of the first bucket; taken: one of the second
struct Trade {
  std::int64_t change = 0;  // of the sum of excess
  std::array<std::int32_t, 2> given;
  std::array<std::int32_t, 2> taken;
  std::int32_t partner = Partition::kNowhere;
};

class ExcessSearch {
 public:
  ExcessSearch(Partition& partition, std::int64_t target, Effort& effort)
      : partition_(partition),
        target_(target),
        effort_(effort),
        random_(static_cast<std::uint64_t>(effort.spent()), "lower excess"),
        above_here_(static_cast<std::size_t>(partition.dimensions())),
        above_there_(above_here_.size()) {}

  bool run() {
    while (true) {
      const std::int64_t value = list_above();
      best_.offer(partition_, value);
      if (above_.empty() || effort_.used_up()) break;
      const std::int32_t first = above_[random_.below(above_.size())];
      if (const std::optional<Trade> trade = find_trade(first)) apply(first, *trade);
    }
    best_.restore(partition_);
    return best_.value() <= target_;
  }

 private:
  /// Lists the buckets above the target; returns the max load.
  std::int64_t list_above() {
    std::int64_t value = 0;
    above_.clear();
    for (std::int32_t bucket = 0; bucket < partition_.buckets(); ++bucket) {
      value = std::max(value, partition_.value(bucket));
      if (partition_.value(bucket) > target_) above_.push_back(bucket);
    }
    effort_.spend(partition_.buckets());
    return value;
  }

  [[nodiscard]] std::int64_t excess(std::int32_t bucket) const {
    return std::max<std::int64_t>(0, partition_.value(bucket) - target_);
  }

  /// The buckets with which a trade could lower the sum the most; ties are drawn at random.
  const std::vector<std::int32_t>& list_partners(std::int32_t first) {
    const std::int64_t* own = partition_.bucket(first);
    const std::int64_t of_first = excess(first);
    ranked_.clear();
    for (std::int32_t bucket = 0; bucket < partition_.buckets(); ++bucket) {
      if (bucket == first) continue;
      std::int64_t left = 0;  // lower bound on the excess of both together
      for (std::int32_t d = 0; d < partition_.dimensions(); ++d)
        left = std::max(left, own[d] - target_ + (partition_.bucket(bucket)[d] - target_));
      const std::int64_t change = left - of_first - excess(bucket);
      if (change <= 0) ranked_.emplace_back(change, random_.next(), bucket);
    }
    effort_.spend(partition_.buckets());
    const std::size_t kept = std::min(kPartners, ranked_.size());
    if (kept < ranked_.size())
      std::nth_element(ranked_.begin(), ranked_.begin() + kept, ranked_.end());
    std::sort(ranked_.begin(), ranked_.begin() + kept);
    partners_.clear();
    for (std::size_t i = 0; i < kept; ++i) partners_.push_back(std::get<2>(ranked_[i]));
    return partners_;
  }

  /// Lists subsets of a bucket; of more than kExchanged items it takes a random sample.
  void list_subsets(std::int32_t bucket, Subsets& subsets) {
    const auto members = partition_.members(bucket);
    const std::size_t looked_at = std::min(kExchanged, members.size());
    const std::size_t first = looked_at < members.size() ? random_.below(members.size()) : 0;
    subsets.items.assign(1, {Partition::kNowhere, Partition::kNowhere});
    for (std::size_t i = 0; i < looked_at; ++i) {
      const std::int32_t item = members[(first + i * members.size() / looked_at) % members.size()];
      subsets.items.push_back({item, Partition::kNowhere});
    }
    for (std::size_t i = 1; i <= looked_at; ++i)
      for (std::size_t j = 1; j < i; ++j)
        subsets.items.push_back({subsets.items[i][0], subsets.items[j][0]});
    subsets.loads.clear();
    for (const auto& [one, other] : subsets.items)
      for (std::int32_t d = 0; d < partition_.dimensions(); ++d)
        subsets.loads.push_back((one == Partition::kNowhere ? 0 : partition_.item(one)[d]) +
                                (other == Partition::kNowhere ? 0 : partition_.item(other)[d]));
  }

  /// The best trade with the first partner that can lower the sum; if there is none, any that keeps
  /// it. Null also when the effort was used up first.
  std::optional<Trade> find_trade(std::int32_t first) {
    const std::vector<std::int32_t>& partners = list_partners(first);
    list_subsets(first, given_);
    Trade best;
    ties_ = 0;
    for (const std::int32_t partner : partners) {
      list_subsets(partner, taken_);
      try_trades(first, partner, best);
      if (!effort_.spend(std::ssize(given_.items) * std::ssize(taken_.items))) return {};
      if (best.change < 0) break;
    }
    return best.partner == Partition::kNowhere ? std::nullopt : std::optional(best);
  }

  void try_trades(std::int32_t first, std::int32_t partner, Trade& best) {
    switch (partition_.dimensions()) {
      case 1:
        return try_trades_of(first, partner, std::integral_constant<std::int32_t, 1>(), best);
      case 2:
        return try_trades_of(first, partner, std::integral_constant<std::int32_t, 2>(), best);
      default:
        return try_trades_of(first, partner, partition_.dimensions(), best);
    }
  }
  template <class Dimensions>
  void try_trades_of(std::int32_t first, std::int32_t partner, Dimensions dimensions, Trade& best) {
    const std::int64_t* here = partition_.bucket(first);
    const std::int64_t* there = partition_.bucket(partner);
    const std::int64_t before = excess(first) + excess(partner);
    for (std::size_t given = 0; given < given_.items.size(); ++given) {
      const std::int64_t* out = &given_.loads[given * dimensions];
      for (std::int32_t d = 0; d < dimensions; ++d) {
        above_here_[d] = here[d] - target_ - out[d];
        above_there_[d] = there[d] - target_ + out[d];
      }
      for (std::size_t taken = 0; taken < taken_.items.size(); ++taken) {
        const std::int64_t* in = &taken_.loads[taken * dimensions];
        std::int64_t left_here = 0;
        std::int64_t left_there = 0;
        for (std::int32_t d = 0; d < dimensions; ++d) {
          left_here = std::max(left_here, above_here_[d] + in[d]);
          left_there = std::max(left_there, above_there_[d] - in[d]);
        }
        const std::int64_t change = left_here + left_there - before;
        if (change > best.change || given + taken == 0) continue;
        if (does_empty(first, partner, given, taken)) continue;
        if (change < best.change || random_.below(++ties_) == 0)
          best = {change, given_.items[given], taken_.items[taken], partner};
      }
    }
  }
  [[nodiscard]] bool does_empty(std::int32_t first, std::int32_t partner, std::size_t given,
                                std::size_t taken) const {
    const std::int32_t moved = given_.size(given) - taken_.size(taken);
    return std::ssize(partition_.members(first)) - moved < 1 ||
           std::ssize(partition_.members(partner)) + moved < 1;
  }

  void apply(std::int32_t first, const Trade& trade) {
    for (const std::int32_t item : trade.given)
      if (item != Partition::kNowhere) partition_.move(item, trade.partner);
    for (const std::int32_t item : trade.taken)
      if (item != Partition::kNowhere) partition_.move(item, first);
  }

  Partition& partition_;
  std::int64_t target_;
  Effort& effort_;
  RandomStream random_;
  BestArrangement best_;
  std::vector<std::int32_t> above_;  // buckets above the target
  std::vector<std::tuple<std::int64_t, std::uint64_t, std::int32_t>> ranked_;
  std::vector<std::int32_t> partners_;
  std::vector<std::int64_t> above_here_;   // [dimensions] excess without the given items
  std::vector<std::int64_t> above_there_;  // [dimensions] excess with them
  Subsets given_;
  Subsets taken_;
  std::uint64_t ties_ = 0;  // trades so far in this step that keep the sum
};

}  // namespace

bool lower_excess(Partition& partition, std::int64_t target, Effort& effort) {
  return ExcessSearch(partition, target, effort).run();
}

}  // namespace tributary::schedule
