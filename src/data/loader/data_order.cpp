#include "data/loader/data_order.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::data {

DataOrder::DataOrder(std::uint64_t seed, std::vector<double> weights,
                     std::vector<std::int64_t> sizes)
    : seed_(seed), sizes_(std::move(sizes)) {
  double sum = 0;
  for (const double weight : weights) {
    TRIB_REQUIRE(std::isfinite(weight) && weight >= 0, .what = "data: weight of a source",
                 .where = "data.sources", .found = str(weight), .expected = "0 or above");
    cumulative_.push_back(sum += weight);
  }
  TRIB_REQUIRE(sum > 0, .what = "data: no source has a weight above 0", .where = "data.sources",
               .found = str(weights.size(), " sources"));
}

int DataOrder::source_at(std::int64_t index) const {
  RandomStream draw(seed_, "mixture", static_cast<std::uint64_t>(index));
  const double point = draw.uniform() * cumulative_.back();
  // The first whose sum is above the point: a source of weight 0 never is.
  return static_cast<int>(std::ranges::upper_bound(cumulative_, point) - cumulative_.begin());
}

std::int64_t DataOrder::item_at(int source, std::int64_t position) const {
  const std::int64_t size = sizes_[static_cast<std::size_t>(source)];
  RandomStream key(seed_, "order", static_cast<std::uint64_t>(source),
                   static_cast<std::uint64_t>(position / size));
  const KeyedPermutation epoch(key.next(), static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(epoch.at(static_cast<std::uint64_t>(position % size)));
}

std::int64_t DataOrder::replacement(int source, std::int64_t index, std::int64_t attempt) const {
  RandomStream draw(seed_, "replacement", static_cast<std::uint64_t>(index),
                    static_cast<std::uint64_t>(attempt));
  return static_cast<std::int64_t>(
      draw.below(static_cast<std::uint64_t>(sizes_[static_cast<std::size_t>(source)])));
}

}  // namespace tributary::data
