#include "data/loader/data_order.h"

#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace tributary::data {

DataOrder::DataOrder(std::uint64_t seed, std::vector<MixtureShare> shares)
    : seed_(seed), shares_(std::move(shares)) {
  double at_start = 0;
  for (const MixtureShare& share : shares_) {
    TRIB_REQUIRE(std::isfinite(share.weight) && share.weight >= 0,
                 .what = "data: weight of a source", .where = "data.sources",
                 .found = str(share.weight), .expected = "0 or above");
    if (share.first_index <= 0) at_start += share.weight;
  }
  TRIB_REQUIRE(at_start > 0, .what = "data: no source has a weight above 0 at the first step",
               .where = "data.sources", .found = str(shares_.size(), " sources"),
               .fix = "give one a weight above 0 and start_step 0");
}

int DataOrder::source_at(std::int64_t index) const {
  const auto weight_of = [index](const MixtureShare& share) {
    return share.first_index <= index ? share.weight : 0.0;
  };
  double total = 0;
  for (const MixtureShare& share : shares_) total += weight_of(share);
  RandomStream draw(seed_, "mixture", static_cast<std::uint64_t>(index));
  const double point = draw.uniform() * total;
  // The first source whose running sum is above the point; a source of weight 0 never is.
  double sum = 0;
  std::size_t source = 0;
  while ((sum += weight_of(shares_[source])) <= point) ++source;
  return static_cast<int>(source);
}

std::int64_t DataOrder::item_at(int source, std::int64_t position) const {
  const std::int64_t size = shares_[static_cast<std::size_t>(source)].size;
  RandomStream key(seed_, "order", static_cast<std::uint64_t>(source),
                   static_cast<std::uint64_t>(position / size));
  const KeyedPermutation epoch(key.next(), static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(epoch.at(static_cast<std::uint64_t>(position % size)));
}

std::int64_t DataOrder::replacement(int source, std::int64_t index, std::int64_t attempt) const {
  RandomStream draw(seed_, "replacement", static_cast<std::uint64_t>(index),
                    static_cast<std::uint64_t>(attempt));
  return static_cast<std::int64_t>(
      draw.below(static_cast<std::uint64_t>(shares_[static_cast<std::size_t>(source)].size)));
}

}  // namespace tributary::data
