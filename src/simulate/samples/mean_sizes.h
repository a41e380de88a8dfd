#pragma once

#include <vector>

#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// The sizes that batches have for encoders of one kind, or for the backbone.
struct MeanSizes {
  double mean = 0;      // units of a sample: patches, positions of sound, tokens
  double item = 1;      // of an image or a clip; for the backbone of a sample
  double attended = 1;  // sum of squares / sum of items: the length with equal attention
  double min = 0;       // min over samples
  double batch = 0;     // of the largest batch
};

/// The sizes of batches for each kind of module.
///
/// shape: batches [batches, samples], at least one sample
struct BatchSizes {
  explicit BatchSizes(const std::vector<std::vector<SampleSize>>& batches);

  MeanSizes tokens, patches, frames;
};

}  // namespace tributary::simulate
