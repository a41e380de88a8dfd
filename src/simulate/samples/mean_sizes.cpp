#include "simulate/samples/mean_sizes.h"

#include <algorithm>

namespace tributary::simulate {
namespace {

/// Counts the units of a sample, or the items that they are divided into equally.
using CountOf = double (*)(const SampleSize& sample);

MeanSizes measure(const std::vector<std::vector<SampleSize>>& batches, CountOf units,
                  CountOf items) {
  MeanSizes sizes;
  double squared = 0;
  double all_items = 0;
  double samples = 0;
  for (const std::vector<SampleSize>& batch : batches) {
    double sum = 0;
    for (const SampleSize& sample : batch) {
      const double size = units(sample);
      sum += size;
      if (items(sample) > 0) squared += size * size / items(sample);
      all_items += items(sample);
      if (sizes.min == 0 || size < sizes.min) sizes.min = size;
    }
    samples += static_cast<double>(batch.size());
    sizes.mean += sum;
    sizes.batch = std::max(sizes.batch, sum);
  }
  if (sizes.mean > 0 && all_items > 0) {
    sizes.attended = squared / sizes.mean;
    sizes.item = sizes.mean / all_items;
  }
  sizes.mean /= samples;
  return sizes;
}

}  // namespace

BatchSizes::BatchSizes(const std::vector<std::vector<SampleSize>>& batches)
    : tokens(measure(
          batches, [](const SampleSize& sample) { return static_cast<double>(sample.tokens); },
          [](const SampleSize&) { return 1.0; })),
      patches(measure(
          batches, [](const SampleSize& sample) { return static_cast<double>(sample.patches); },
          [](const SampleSize& sample) { return static_cast<double>(sample.items); })),
      frames(measure(
          batches, [](const SampleSize& sample) { return static_cast<double>(sample.frames); },
          [](const SampleSize& sample) { return static_cast<double>(sample.clips); })) {}

}  // namespace tributary::simulate
