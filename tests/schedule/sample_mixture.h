#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/random.h"

namespace tributary::schedule {

/// 46 : 19 : 60 : 60 single photos, documents, groups of pictures and videos.
struct MixedSample {
  double tiles;
  double tokens;
};

inline double uniform(RandomStream& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

inline MixedSample draw_sample(RandomStream& random) {
  const double text = std::exp(uniform(random, std::log(40.0), std::log(500.0)));
  const std::uint64_t kind = random.below(46 + 19 + 60 + 60);
  if (kind < 46) return {5, 729 + 2187 * uniform(random, 0.7, 1.33) + text};
  if (kind < 46 + 19) {
    const double grid = static_cast<double>(random.between(6, 25));
    const double kept = uniform(random, 0.75, 1);
    return {grid + 1, 729 + std::min(9.0, grid) * 729 * kept + text};
  }
  if (kind < 46 + 19 + 60) {
    const double drawn = -2.2 * std::log(1 - random.uniform());
    const double pictures = std::min(16.0, std::floor(2 + drawn));
    return {pictures, 730 * pictures + text};
  }
  const double frames = static_cast<double>(random.between(4, 31));
  return {frames, 210 * frames + text};
}

/// Encoder and backbone load of each sample in nanoseconds; `ratio` is that of their sums.
inline std::vector<std::int64_t> mixture_loads(std::int64_t items, double ratio,
                                               std::uint64_t seed) {
  RandomStream random(seed, "mixture");
  std::vector<MixedSample> samples;
  double tiles = 0;
  double backbone = 0;
  const auto backbone_of = [](const MixedSample& sample) {
    return sample.tokens * (1 + sample.tokens / 24576);
  };
  for (std::int64_t item = 0; item < items; ++item) {
    samples.push_back(draw_sample(random));
    tiles += samples.back().tiles;
    backbone += backbone_of(samples.back());
  }
  std::vector<std::int64_t> loads;
  const double mean = 1e6;
  for (const MixedSample& sample : samples) {
    loads.push_back(std::llround(mean * ratio * sample.tiles / tiles * double(items)));
    loads.push_back(std::llround(mean * backbone_of(sample) / backbone * double(items)));
  }
  return loads;
}

}  // namespace tributary::schedule
