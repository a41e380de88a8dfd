#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/sample_shape.h"

namespace tributary::config {

/// Samples of one shape.
struct ShapeBin {
  std::int64_t samples = 1;
  SampleShape shape = {};

  friend bool operator==(const ShapeBin&, const ShapeBin&) = default;
};

/// How often each shape comes up in a data set: docs/formats/shape_histogram.md.
struct ShapeHistogram {
  std::string source = {};
  std::vector<ShapeBin> bins = {};

  [[nodiscard]] std::int64_t samples() const;
  friend bool operator==(const ShapeHistogram&, const ShapeHistogram&) = default;
};

inline constexpr std::string_view kShapeHistogramFormat = "tributary.shape_histogram/1";

/// errors: Fault::kInput that lists everything wrong by file and key path
[[nodiscard]] ShapeHistogram parse_shape_histogram(std::string_view text, const std::string& where);
[[nodiscard]] ShapeHistogram read_shape_histogram(const std::string& path);
/// Writes one line for each bin.
///
/// errors: Fault::kInput when the text is larger than a reader takes
[[nodiscard]] std::string write_shape_histogram(const ShapeHistogram& histogram);

}  // namespace tributary::config
