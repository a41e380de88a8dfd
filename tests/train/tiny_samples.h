#pragma once

#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "core/random.h"
#include "data/sample.h"

namespace tributary::train {

/// Text samples of the given lengths; about half of the tokens are targets, two sources in turn.
inline std::vector<data::EncodedSample> make_text_samples(const std::vector<int>& lengths,
                                                          std::int64_t vocab,
                                                          std::uint64_t seed = 3) {
  std::vector<data::EncodedSample> samples;
  for (const int length : lengths) {
    data::EncodedSample sample;
    sample.id = static_cast<std::int64_t>(samples.size());
    sample.source = static_cast<int>(samples.size() % 2);
    sample.key = "samples.jsonl:" + std::to_string(samples.size() + 1);
    RandomStream random(seed, "sample", samples.size());
    for (int i = 0; i < length; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(random.between(0, vocab - 1)));
      sample.targets.push_back(random.uniform() < 0.5 ? data::kIgnoredTarget
                                                      : random.between(0, vocab - 1));
    }
    sample.targets[0] = 1;
    samples.push_back(std::move(sample));
  }
  return samples;
}

/// Adds an image of this grid in front of a sample: its pads, between start and end.
inline void add_image(data::EncodedSample& sample, const config::ModelConfig& config, Grid grid,
                      std::uint64_t seed) {
  const config::VisionConfig& vision = *config.vision;
  const auto pads = static_cast<std::size_t>(grid.patches() / (vision.merge * vision.merge));
  std::vector<std::int32_t> tokens{static_cast<std::int32_t>(config.tokens.vision_start)};
  tokens.insert(tokens.end(), pads, static_cast<std::int32_t>(config.tokens.image_pad));
  tokens.push_back(static_cast<std::int32_t>(config.tokens.vision_end));
  sample.tokens.insert(sample.tokens.begin(), tokens.begin(), tokens.end());
  sample.targets.insert(sample.targets.begin(), tokens.size(), data::kIgnoredTarget);
  data::PatchedItem item{
      .modality = Modality::kImage, .grid = grid, .seconds_per_step = 0, .rows = {}};
  RandomStream random(seed, "rows");
  for (std::int64_t i = 0; i < grid.patches() * vision.patch_width(); ++i)
    item.rows.push_back(static_cast<float>(random.normal()));
  sample.items.insert(sample.items.begin(), std::move(item));
}

}  // namespace tributary::train
