#include "train/executor/step_sums.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tributary::train {
namespace {

std::vector<double> as_doubles(const std::vector<std::int64_t>& bits) {
  std::vector<double> values;
  for (const std::int64_t each : bits) values.push_back(std::bit_cast<double>(each));
  return values;
}

}  // namespace

void StepSums::add(std::int64_t bits, std::function<void(const Column&)> take) {
  own_.push_back(bits);
  steps_.push_back({.has_slot = true, .take = std::move(take)});
}

void StepSums::sum(double& value, bool counts) {
  add(std::bit_cast<std::int64_t>(counts ? value : 0.0), [&value](const Column& column) {
    const std::vector<double> values = as_doubles(column);
    value = std::accumulate(values.begin() + 1, values.end(), values.front());
  });
}

void StepSums::sum(std::int64_t& value, bool counts) {
  add(counts ? value : 0, [&value](const Column& column) {
    value = std::accumulate(column.begin(), column.end(), std::int64_t{0});
  });
}

void StepSums::largest(double& value) {
  add(std::bit_cast<std::int64_t>(value),
      [&value](const Column& column) { value = std::ranges::max(as_doubles(column)); });
}

void StepSums::largest(std::int64_t& value) {
  add(value, [&value](const Column& column) { value = *std::ranges::max_element(column); });
}

void StepSums::each(std::int64_t value, std::vector<std::int64_t>& of_ranks) {
  add(value, [&of_ranks](const Column& column) { of_ranks = column; });
}

void StepSums::then(std::function<void()> next) {
  steps_.push_back(
      {.has_slot = false, .take = [next = std::move(next)](const Column&) { next(); }});
}

void StepSums::share(const mesh::Group& ranks) {
  const std::size_t slots = own_.size();
  const std::vector<std::int64_t> all = ranks.gather(std::move(own_));
  std::size_t slot = 0;
  Column column(static_cast<std::size_t>(ranks.size()));
  for (const Step& step : steps_) {
    if (step.has_slot) {
      for (std::size_t rank = 0; rank < column.size(); ++rank)
        column[rank] = all[rank * slots + slot];
      ++slot;
    }
    step.take(column);
  }
  own_.clear();
  steps_.clear();
}

}  // namespace tributary::train
