#include "schedule/balance/partition.h"

#include <algorithm>
#include <numeric>

namespace tributary::schedule {
namespace {

std::vector<std::int32_t> order_canonically(const BalanceProblem& problem) {
  const auto loads_of = [&](std::int32_t item) {
    return problem.loads.subspan(static_cast<std::size_t>(item) * problem.dimensions,
                                 problem.dimensions);
  };
  std::vector<std::int64_t> largest(static_cast<std::size_t>(problem.items()));
  for (std::int32_t item = 0; item < std::ssize(largest); ++item) {
    largest[item] = *std::max_element(loads_of(item).begin(), loads_of(item).end());
  }
  std::vector<std::int32_t> order(largest.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    if (largest[a] != largest[b]) return largest[a] > largest[b];
    const auto [in_a, in_b] = std::mismatch(loads_of(a).begin(), loads_of(a).end(),  //
                                            loads_of(b).begin());
    return in_a == loads_of(a).end() ? a < b : *in_a > *in_b;
  });
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
  for (std::int32_t dimension = 0; dimension < dimensions_; ++dimension) {
    std::vector<std::int32_t>& ascending = ascending_[dimension];
    ascending.resize(order_.size());
    std::iota(ascending.begin(), ascending.end(), 0);
    std::stable_sort(ascending.begin(), ascending.end(), [&](std::int32_t a, std::int32_t b) {
      return item(a)[dimension] < item(b)[dimension];
    });
  }
}

std::int32_t Partition::worst() const {
  return static_cast<std::int32_t>(std::max_element(value_.begin(), value_.end()) - value_.begin());
}

std::int32_t Partition::critical_dimension(std::int32_t bucket) const {
  const std::int64_t* loads = &bucket_loads_[static_cast<std::size_t>(bucket) * dimensions_];
  return static_cast<std::int32_t>(std::max_element(loads, loads + dimensions_) - loads);
}

std::ptrdiff_t Partition::first_at_least(std::int32_t dimension, std::int64_t load) const {
  const std::vector<std::int32_t>& ascending = ascending_[dimension];
  return std::partition_point(ascending.begin(), ascending.end(),
                              [&](std::int32_t a) { return item(a)[dimension] < load; }) -
         ascending.begin();
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
