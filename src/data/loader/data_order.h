#pragma once

#include <cstdint>
#include <vector>

#include "data/loader/loader.h"

namespace tributary::data {

/// What one source brings to the mixture.
struct MixtureShare {
  double weight = 1;
  std::int64_t size = 0;         // training records
  std::int64_t first_index = 0;  // the sample from which on it is drawn
};

/// Which training record stands at which place of the run: a pure function of the seed.
///
/// units: a source's `position` counts what was drawn from it before, over all epochs; `item` is a
///        place in the source's list of training records
class DataOrder {
 public:
  /// shape:  shares [sources]; a source of weight 0 is never drawn and may be empty
  /// errors: Fault::kInput when a weight is below 0 or not finite, or none above 0 starts at once
  DataOrder(std::uint64_t seed, std::vector<MixtureShare> shares);

  /// Drawn by weight among the sources that have started.
  [[nodiscard]] int source_at(std::int64_t index) const;
  /// Every epoch is a permutation of its own.
  [[nodiscard]] std::int64_t item_at(int source, std::int64_t position) const;
  /// What stands in for the sample at `index` after `attempt` bad ones (from 0).
  [[nodiscard]] std::int64_t replacement(int source, std::int64_t index,
                                         std::int64_t attempt) const;

 private:
  std::uint64_t seed_;
  std::vector<MixtureShare> shares_;
};

}  // namespace tributary::data
