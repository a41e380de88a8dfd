#pragma once

#include <cstdint>
#include <vector>

#include "data/loader/loader.h"

namespace tributary::data {

/// The share of one source in the mixture.
struct MixtureShare {
  double weight = 1;
  std::int64_t size = 0;         // training records
  std::int64_t first_index = 0;  // first sample index at which it may be drawn
};

/// Maps each sample index of the run to a training record: a pure function of the seed.
///
/// units: `position` counts the earlier draws from a source, over all epochs; `item` is a place in
///        the source's list of training records
class DataOrder {
 public:
  /// shape:  shares [sources]; a source of weight 0 is never drawn and may be empty
  /// errors: Fault::kInput when a weight is negative or not finite, or no positive one starts at 0
  DataOrder(std::uint64_t seed, std::vector<MixtureShare> shares);

  /// The source of a sample, drawn by weight among the sources that have started.
  [[nodiscard]] int source_at(std::int64_t index) const;
  /// The item at a position; every epoch is a permutation of its own.
  [[nodiscard]] std::int64_t item_at(int source, std::int64_t position) const;
  /// The item that replaces the sample at `index` after `attempt` bad ones (from 0).
  [[nodiscard]] std::int64_t replacement(int source, std::int64_t index,
                                         std::int64_t attempt) const;

 private:
  std::uint64_t seed_;
  std::vector<MixtureShare> shares_;
};

}  // namespace tributary::data
