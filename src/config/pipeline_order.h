#pragma once

#include <cstdint>

namespace tributary::config {

/// In which order a pipeline stage runs the passes of its microbatches.
/// source: docs/theory/parallelism.md, "Orders of passes"
enum class PipelineOrder : std::uint8_t {
  kGpipe,
  k1f1b,
  kInterleaved,
  kZbH1,
  kZbV,
  kVHalf,
  kVMin,
};

/// Whether the gradients of weights are passes of their own, which may come later.
[[nodiscard]] constexpr bool splits_backward(PipelineOrder order) {
  return order == PipelineOrder::kZbH1 || order == PipelineOrder::kZbV ||
         order == PipelineOrder::kVHalf || order == PipelineOrder::kVMin;
}

}  // namespace tributary::config
