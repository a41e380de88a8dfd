#pragma once

#include <vector>

#include "simulate/samples/deal_samples.h"

namespace tributary::simulate {

/// What batches ask of encoders of one kind, or of the backbone.
struct MeanSizes {
  double mean = 0;      // units of a sample: patches, positions of sound, tokens
  double item = 1;      // of an image or a clip; of the backbone of a sample
  double attended = 1;  // sum of squares over sum of items: the length with the batches' attention
  double least = 0;     // of any sample
  double batch = 0;     // of the largest batch
};

/// The sizes of batches by what takes them.
///
/// shape: batches [batches, samples], at least one sample
struct BatchSizes {
  explicit BatchSizes(const std::vector<std::vector<SampleSize>>& batches);

  MeanSizes tokens, patches, frames;
};

}  // namespace tributary::simulate
