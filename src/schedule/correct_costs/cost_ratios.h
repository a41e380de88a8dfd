#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// Costs that deviate together: items of nearly the same shape on the same module.
struct CostKey {
  std::int32_t module = 0;  // number of an encoder's chain, or the backbone's
  std::int32_t tp = 1;
  std::int32_t size = 0;     // quarter_octave() of tiles or packed tokens
  std::int32_t longest = 0;  // quarter_octave() of the longest sample; 0 for encoders

  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};

/// floor(4 * log2(count)); 0 for a count below 1.
[[nodiscard]] std::int32_t quarter_octave(std::int64_t count);

/// The part of a bucket's predicted time with one key.
struct PredictedShare {
  CostKey key;
  Nanoseconds time;  // by the table, uncorrected
};

/// Work that was measured as a whole: its predictions and its measured time.
struct MeasuredBucket {
  std::vector<PredictedShare> shares;  // one for each key
  Nanoseconds time;
};

/// The least-squares equations of the ratios measured / predicted, one for each key.
///
/// Each bucket is one equation: the ratios of its keys, weighted by their parts of its predicted
/// time, add up to its own ratio. So small parts are learned as well as large ones, and keys that
/// occur together are told apart by other buckets.
///
/// source: recursive least squares with exponential forgetting (Plackett 1950, "Some theorems in
///         least squares"), in information form, held to 1 by a ridge (Hoerl and Kennard 1970)
class RatioEquations {
 public:
  /// Reduces the weight of all measurements so far.
  void forget(double kept);
  /// units: a bucket's own ratio is clamped to [lowest, highest], like all ratios
  void add(const MeasuredBucket& bucket, double lowest, double highest);
  /// The ratio of every key. A key without measurements has ratio 1; `weight_of_one`, above 0, is
  /// the weight of that prior in buckets.
  /// cost: O(keys^3)
  [[nodiscard]] std::map<CostKey, double> solve(double weight_of_one) const;

  using Products = std::map<std::pair<CostKey, CostKey>, double>;
  /// Sums over buckets: products of two shares, the lower key first; and of share and ratio.
  [[nodiscard]] const Products& products() const { return products_; }
  [[nodiscard]] const std::map<CostKey, double>& measured() const { return measured_; }
  /// Rebuilds the equations from products() and measured(), which must have all keys of products.
  [[nodiscard]] static RatioEquations from(Products products, std::map<CostKey, double> measured);

  friend bool operator==(const RatioEquations&, const RatioEquations&) = default;

 private:
  Products products_;
  std::map<CostKey, double> measured_;
};

}  // namespace tributary::schedule
