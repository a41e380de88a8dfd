#include "schedule/pack_vector.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "schedule/packing_bound.h"

namespace tributary::schedule {
namespace {

void check_items(const VectorItems& items) {
  TRIB_REQUIRE(items.dimensions() >= 1 && std::ssize(items.needs) % items.dimensions() == 0,
               .what = "schedule: needs are no whole rows",
               .found = str(items.needs.size(), " needs in ", items.dimensions(), " dimensions"),
               .expected = "items * dimensions needs, at least 1 dimension");
  TRIB_REQUIRE(items.items() <= kMaxVectorItems, .what = "schedule: too many items to pack",
               .found = str(items.items()), .expected = str("at most ", kMaxVectorItems));
  for (std::int64_t d = 0; d < items.dimensions(); ++d) {
    TRIB_REQUIRE(items.capacities[d] >= 1 && items.capacities[d] <= kMaxVectorCapacity,
                 .what = "schedule: packing capacity out of range", .where = str("dimension ", d),
                 .found = str(items.capacities[d]), .expected = str("1 to ", kMaxVectorCapacity));
  }
  for (std::int64_t i = 0; i < std::ssize(items.needs); ++i) {
    const std::int64_t d = i % items.dimensions();
    TRIB_REQUIRE(items.needs[i] >= 0 && items.needs[i] <= items.capacities[d],
                 .what = "schedule: sample does not fit into a bin",
                 .where = str("item ", i / items.dimensions(), ", dimension ", d),
                 .found = str(items.needs[i]), .expected = str("0 to ", items.capacities[d]),
                 .fix = "raise the capacity or drop the sample");
  }
}

std::vector<std::int32_t> sort_by_largest_share(const VectorItems& items) {
  std::vector<double> share(static_cast<std::size_t>(items.items()));
  for (std::int64_t i = 0; i < std::ssize(items.needs); ++i) {
    double& mine = share[i / items.dimensions()];
    mine =
        std::max(mine, double(items.needs[i]) / double(items.capacities[i % items.dimensions()]));
  }
  std::vector<std::int32_t> order(share.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return share[a] > share[b]; });
  return order;
}

/// Bins while they are filled.
class FillingBins {
 public:
  explicit FillingBins(const VectorItems& items) : items_(items) {}

  void put(std::int32_t item) {
    const std::span<const std::int64_t> needs = items_.needs.subspan(
        static_cast<std::size_t>(item) * items_.dimensions(), items_.dimensions());
    const std::size_t bin = find_best(needs);
    if (bin == members_.size()) {
      members_.emplace_back();
      left_.push_back(double(items_.dimensions()));
      room_.insert(room_.end(), items_.capacities.begin(), items_.capacities.end());
    }
    members_[bin].push_back(item);
    left_[bin] = 0;
    for (std::size_t d = 0; d < needs.size(); ++d) {
      std::int64_t& room = room_[bin * needs.size() + d];
      room -= needs[d];
      left_[bin] += double(room) / double(items_.capacities[d]);
    }
  }

  [[nodiscard]] PackedBins collect() const {
    PackedBins packed = {.first = {0}, .items = {}};
    for (const std::vector<std::int32_t>& bin : members_) {
      packed.items.insert(packed.items.end(), bin.begin(), bin.end());
      packed.first.push_back(static_cast<std::int32_t>(packed.items.size()));
    }
    return packed;
  }

 private:
  /// An item takes the same share of every bin, so the least left before is the least left after.
  [[nodiscard]] std::size_t find_best(std::span<const std::int64_t> needs) const {
    std::size_t best = members_.size();
    for (std::size_t bin = 0; bin < members_.size(); ++bin) {
      if (best < members_.size() && left_[bin] >= left_[best]) continue;
      const auto room = room_.begin() + bin * needs.size();
      if (std::equal(needs.begin(), needs.end(), room, std::less_equal<>())) best = bin;
    }
    return best;
  }

  const VectorItems& items_;
  std::vector<std::vector<std::int32_t>> members_;  // [bins]
  std::vector<double> left_;                        // [bins] free shares, summed
  std::vector<std::int64_t> room_;                  // [bins, dimensions]
};

}  // namespace

PackedBins pack_vector(const VectorItems& items) {
  check_items(items);
  FillingBins bins(items);
  for (const std::int32_t item : sort_by_largest_share(items)) bins.put(item);
  return bins.collect();
}

std::int64_t vector_packing_bound(const VectorItems& items) {
  check_items(items);
  std::int64_t bound = items.items() == 0 ? 0 : 1;
  for (std::int64_t d = 0; d < items.dimensions(); ++d) {
    std::vector<std::int64_t> needs;
    for (std::int64_t item = 0; item < items.items(); ++item) {
      const std::int64_t need = items.needs[item * items.dimensions() + d];
      if (need > 0) needs.push_back(need);
    }
    bound = std::max(bound, packing_bound(needs, items.capacities[d]));
  }
  return bound;
}

}  // namespace tributary::schedule
