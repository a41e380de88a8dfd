#include "schedule/balance/partition.h"

#include <algorithm>
#include <utility>

namespace tributary::schedule {
namespace {

std::vector<std::int32_t> order_canonically(const BalanceProblem& problem) {
  const auto loads_of = [&](std::int32_t item) {
    return problem.loads.subspan(static_cast<std::size_t>(item) * problem.dimensions,
                                 problem.dimensions);
  };
  using Entry = std::pair<std::int64_t, std::int32_t>;  // largest load, item
  std::vector<Entry> by_largest;
  by_largest.reserve(static_cast<std::size_t>(problem.items()));
  for (std::int32_t item = 0; item < problem.items(); ++item) {
    const std::span<const std::int64_t> loads = loads_of(item);
    by_largest.emplace_back(*std::max_element(loads.begin(), loads.end()), item);
  }
  std::sort(by_largest.begin(), by_largest.end(), [&](const Entry& a, const Entry& b) {
    if (a.first != b.first) return a.first > b.first;
    const std::span<const std::int64_t> of_a = loads_of(a.second);
    const std::span<const std::int64_t> of_b = loads_of(b.second);
    const auto [in_a, in_b] = std::mismatch(of_a.begin(), of_a.end(), of_b.begin());
    return in_a == of_a.end() ? a.second < b.second : *in_a > *in_b;
  });
  std::vector<std::int32_t> order;
  order.reserve(by_largest.size());
  for (const auto& [largest, item] : by_largest) order.push_back(item);
  return order;
}

}  // namespace

Partition::Partition(const BalanceProblem& problem)
    : dimensions_(static_cast<std::int32_t>(problem.dimensions)),
      order_(order_canonically(problem)),
      held_(problem.held.begin(), problem.held.end()),
      item_loads_(problem.loads.size()),
      bucket_loads_(static_cast<std::size_t>(problem.buckets * problem.dimensions)),
      value_(static_cast<std::size_t>(problem.buckets)),
      bucket_of_(order_.size(), kNowhere),
      place_(order_.size()),
      members_(static_cast<std::size_t>(problem.buckets)),
      ascending_(static_cast<std::size_t>(problem.dimensions)) {
  // Most buckets never need more.
  const std::size_t usual = 2 * order_.size() / members_.size() + 2;
  for (std::vector<std::int32_t>& members : members_) members.reserve(usual);
  for (std::size_t i = 0; !held_.empty() && i < bucket_loads_.size(); ++i)
    bucket_loads_[i] = held_[i % held_.size()];
  if (!held_.empty()) std::ranges::fill(value_, *std::ranges::max_element(held_));
  for (std::int32_t place = 0; place < items(); ++place) {
    const std::size_t row = static_cast<std::size_t>(order_[place]) * dimensions_;
    std::copy_n(problem.loads.begin() + row, dimensions_,
                item_loads_.begin() + static_cast<std::size_t>(place) * dimensions_);
  }
}

void Partition::sort_ascending(std::int32_t dimension) const {
  std::vector<std::pair<std::int64_t, std::int32_t>> by_load;
  by_load.reserve(order_.size());
  for (std::int32_t each = 0; each < items(); ++each)
    by_load.emplace_back(item(each)[dimension], each);
  std::sort(by_load.begin(), by_load.end());
  for (const auto& [load, each] : by_load) ascending_[dimension].push_back(each);
}

std::int32_t Partition::worst() const {
  return static_cast<std::int32_t>(std::max_element(value_.begin(), value_.end()) - value_.begin());
}

std::int32_t Partition::critical_dimension(std::int32_t bucket) const {
  const std::int64_t* loads = &bucket_loads_[static_cast<std::size_t>(bucket) * dimensions_];
  return static_cast<std::int32_t>(std::max_element(loads, loads + dimensions_) - loads);
}

std::ptrdiff_t Partition::first_at_least(std::int32_t dimension, std::int64_t load) const {
  const std::span<const std::int32_t> sorted = ascending(dimension);
  return std::partition_point(sorted.begin(), sorted.end(),
                              [&](std::int32_t a) { return item(a)[dimension] < load; }) -
         sorted.begin();
}

void Partition::add(std::int32_t item_added, std::int32_t bucket, std::int64_t sign) {
  std::int64_t* loads = &bucket_loads_[static_cast<std::size_t>(bucket) * dimensions_];
  std::int64_t value = 0;
  for (std::int32_t d = 0; d < dimensions_; ++d) {
    loads[d] += sign * item(item_added)[d];
    value = std::max(value, loads[d]);
  }
  value_[bucket] = value;
}

void Partition::move(std::int32_t item, std::int32_t bucket) {
  const std::int32_t from = bucket_of_[item];
  if (from != kNowhere) {
    std::vector<std::int32_t>& left = members_[from];
    left[place_[item]] = left.back();
    place_[left.back()] = place_[item];
    left.pop_back();
    add(item, from, -1);
  }
  place_[item] = static_cast<std::int32_t>(members_[bucket].size());
  members_[bucket].push_back(item);
  bucket_of_[item] = bucket;
  add(item, bucket, +1);
}

std::vector<std::int32_t> Partition::assignment() const {
  std::vector<std::int32_t> assignment(bucket_of_.size());
  for (std::int32_t place = 0; place < items(); ++place)
    assignment[order_[place]] = bucket_of_[place];
  return assignment;
}

}  // namespace tributary::schedule
