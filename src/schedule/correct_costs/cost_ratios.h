#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/units.h"

namespace tributary::schedule {

/// Which costs deviate together: items of about the same shape on the same module.
struct CostKey {
  std::int32_t module = 0;  // an encoder's or the backbone's number in the plan
  std::int32_t tp = 1;
  std::int32_t size = 0;     // quarter_octave() of tiles or packed tokens
  std::int32_t longest = 0;  // quarter_octave() of the longest sample; 0 for encoders

  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};

/// floor(4 * log2(count)); 0 for a count below 1.
[[nodiscard]] std::int32_t quarter_octave(std::int64_t count);

/// Part of a bucket's predicted time.
struct PredictedShare {
  CostKey key;
  Nanoseconds time;  // by the table, uncorrected, of the bucket's items with this key
};

/// Work that was measured as one: what was predicted and what it took.
struct MeasuredBucket {
  std::vector<PredictedShare> shares;  // one for each key
  Nanoseconds time;
};

/// The least-squares equations of the ratios measured / predicted, one for each key.
///
/// A bucket says: the ratios of its keys, weighted by their shares of its predicted time, add up to
/// its own ratio. So small shares are learned as well as large ones, and what keys that come
/// together have in common goes to each of them as the other buckets say.
///
/// source: recursive least squares with exponential forgetting (Plackett 1950, "Some theorems in
///         least squares"), in information form, held to 1 by a ridge (Hoerl and Kennard 1970)
class RatioEquations {
 public:
  /// Weakens all that was measured so far.
  void forget(double kept);
  /// units: a bucket's own ratio is taken as within [lowest, highest], where all ratios are
  void add(const MeasuredBucket& bucket, double lowest, double highest);
  /// The ratio of every key. One that nothing was measured of is 1; `weight_of_one`, above 0, is
  /// how many buckets of its own that belief is worth.
  /// cost: O(keys^3)
  [[nodiscard]] std::map<CostKey, double> solve(double weight_of_one) const;

  using Products = std::map<std::pair<CostKey, CostKey>, double>;
  /// Sums over buckets: of products of two shares, the lower key first, and of share and ratio.
  [[nodiscard]] const Products& products() const { return products_; }
  [[nodiscard]] const std::map<CostKey, double>& measured() const { return measured_; }
  /// Takes back what products() and measured() said; the keys of products are among the measured.
  [[nodiscard]] static RatioEquations from(Products products, std::map<CostKey, double> measured);

  friend bool operator==(const RatioEquations&, const RatioEquations&) = default;

 private:
  Products products_;
  std::map<CostKey, double> measured_;
};

}  // namespace tributary::schedule
