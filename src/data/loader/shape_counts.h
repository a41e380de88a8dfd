#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "config/artifact/shape_histogram.h"
#include "core/sample_shape.h"

namespace tributary::data {

struct Survey;

/// Puts shapes with fewer tokens first.
struct ShapeOrder {
  [[nodiscard]] bool operator()(const SampleShape& a, const SampleShape& b) const;
};

/// How many samples have each shape.
using ShapeCounts = std::map<SampleShape, std::int64_t, ShapeOrder>;

/// The histogram of what a run draws: the share of each file is its weight, and all its samples
/// are equally likely. Files of weight 0 (held-out records) are left out.
///
/// units:  `samples` of a bin are samples of the files where all are drawn equally often, else
///         thousandths of a sample of the file whose samples are drawn least often
/// errors: Fault::kInput with ExitCode::kDataLimit when a file has a weight but no shape
[[nodiscard]] config::ShapeHistogram mix_shapes(std::span<const Survey> surveys,
                                                const std::string& source);

}  // namespace tributary::data
