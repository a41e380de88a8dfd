#pragma once

#include <cstdint>
#include <vector>

#include "data/loader/loader.h"

namespace tributary::data {

/// Which training record stands at which place of the run: a pure function of the seed.
///
/// units: a source's `position` counts what was drawn from it before, over all epochs; `item` is a
///        place in the source's list of training records
class DataOrder {
 public:
  /// shape:  weights and sizes [sources]; a source of weight 0 is never drawn and may be empty
  /// errors: Fault::kInput when no weight is above 0, or one is below 0 or not finite
  DataOrder(std::uint64_t seed, std::vector<double> weights, std::vector<std::int64_t> sizes);

  [[nodiscard]] int source_at(std::int64_t index) const;
  /// Every epoch is a permutation of its own.
  [[nodiscard]] std::int64_t item_at(int source, std::int64_t position) const;
  /// What stands in for the sample at `index` after `attempt` bad ones (from 0).
  [[nodiscard]] std::int64_t replacement(int source, std::int64_t index,
                                         std::int64_t attempt) const;

 private:
  std::uint64_t seed_;
  std::vector<double> cumulative_;  // weights, summed
  std::vector<std::int64_t> sizes_;
};

}  // namespace tributary::data
