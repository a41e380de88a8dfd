#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/order/order_shape.h"

namespace tributary::studies {

/// The passes of a pipeline with several chunks on a stage, each after those it depends on, to be
/// timed repeatedly.
class InterleavedOrder {
 public:
  /// errors: Fault::kBug when the interleaved order cannot be made for the shape
  explicit InterleavedOrder(const schedule::OrderShape& shape);

  /// Nanoseconds of a step whose k-th microbatch is `order[k]`.
  ///
  /// shape: passes [2, chunks * stages, microbatches]: forwards of the virtual stages, then their
  ///        backwards, in nanoseconds; order [microbatches]
  [[nodiscard]] std::int64_t makespan(std::span<const std::int64_t> passes,
                                      std::span<const std::int64_t> order);

  /// Max that the first stage keeps at once, when a microbatch leaves of_chunks[c] on chunk c.
  [[nodiscard]] double max_kept(std::span<const double> of_chunks) const;

  [[nodiscard]] const schedule::OrderShape& shape() const { return shape_; }

 private:
  struct Pass {
    std::int32_t stage;
    std::int32_t row;         // virtual stage; all backwards come after all forwards
    std::int32_t microbatch;  // in the order of the step
    std::int32_t after;       // row of the pass before it of the same microbatch; -1: none
  };

  schedule::OrderShape shape_;
  schedule::ActionList first_stage_;
  std::vector<Pass> passes_;
  std::vector<std::int64_t> end_;   // [rows, microbatches]
  std::vector<std::int64_t> free_;  // [stages]
};

}  // namespace tributary::studies
