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

}  // namespace tributary::config
