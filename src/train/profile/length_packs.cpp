#include "train/profile/length_packs.h"

#include <algorithm>

#include "train/profile/crowded_rounds.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kShortest = 16;
constexpr std::size_t kMostTextPacks = 8;
constexpr std::size_t kMostImagePacks = 6;

/// The lowest token that is no placeholder.
std::int32_t plain_token(const config::TokenIds& ids) {
  std::int32_t token = 0;
  while (token == ids.image_pad || token == ids.video_pad || token == ids.vision_start ||
         token == ids.vision_end)
    ++token;
  return token;
}

/// A sample whose last token is to be predicted.
data::EncodedSample make_sample(std::vector<std::int32_t> tokens) {
  data::EncodedSample sample;
  sample.key = "profile";
  sample.targets.assign(tokens.size(), data::kIgnoredTarget);
  sample.targets.back() = 0;
  sample.tokens = std::move(tokens);
  return sample;
}

data::EncodedSample make_image(const config::ModelConfig& config, const Grid& grid) {
  const config::VisionConfig& vision = *config.vision;
  std::vector<std::int32_t> tokens;
  const auto add = [&](std::int64_t token) {  // where the family has it
    if (token >= 0) tokens.push_back(static_cast<std::int32_t>(token));
  };
  add(config.tokens.vision_start);
  const std::int64_t pads = vision.cuts_tiles() ? config::tokens_of_tiles(vision, grid)
                                                : grid.patches() / (vision.merge * vision.merge);
  tokens.insert(tokens.end(), static_cast<std::size_t>(pads),
                static_cast<std::int32_t>(config.tokens.image_pad));
  add(config.tokens.vision_end);
  tokens.push_back(plain_token(config.tokens));
  data::EncodedSample sample = make_sample(std::move(tokens));
  data::PatchedItem item{
      .modality = Modality::kImage, .grid = grid, .seconds_per_step = 0, .rows = {}};
  item.rows.resize(static_cast<std::size_t>(grid.patches() * vision.patch_width()));
  for (std::size_t i = 0; i < item.rows.size(); ++i)
    item.rows[i] = static_cast<float>(i % 17) / 17 - 0.5F;
  sample.items.push_back(std::move(item));
  return sample;
}

/// The sizes of the images, from that of the largest frame on: each side is halved in turn.
std::vector<Grid> frames_below(const Grid& largest, std::int64_t merge) {
  const auto half = [merge](std::int64_t side) {
    return std::max(merge, side / 2 / merge * merge);
  };
  std::vector<Grid> frames;
  Grid next{1, largest.rows, largest.columns};
  while (frames.size() < kMostImagePacks && (frames.empty() || !(frames.back() == next))) {
    frames.push_back(next);
    if (next.rows >= next.columns)
      next.rows = half(next.rows);
    else
      next.columns = half(next.columns);
  }
  return frames;
}

}  // namespace

std::vector<SamplePack> make_text_packs(const config::ModelConfig& config, Tokens capacity) {
  std::vector<SamplePack> packs;
  for (std::int64_t length = capacity.count;
       packs.size() < kMostTextPacks && (packs.empty() || length >= kShortest); length /= 2) {
    const data::EncodedSample sample = make_sample(
        std::vector<std::int32_t>(static_cast<std::size_t>(length), plain_token(config.tokens)));
    packs.emplace_back(static_cast<std::size_t>(capacity.count / length), sample);
  }
  return packs;
}

std::vector<SamplePack> make_image_packs(const config::ModelConfig& config, Tokens capacity,
                                         std::span<const data::EncodedSample> samples) {
  if (!config.vision) return {};
  Grid largest;
  for (const data::EncodedSample& sample : samples)
    for (const data::PatchedItem& item : sample.items)
      if (item.grid.rows * item.grid.columns > largest.rows * largest.columns) largest = item.grid;
  if (largest.patches() == 0) return {};
  std::int64_t most = 0;
  for (const auto& members : fill_microbatches(samples, capacity, samples.size()).microbatches) {
    std::int64_t patches = 0;
    for (const data::EncodedSample* sample : members)
      for (const data::PatchedItem& item : sample->items) patches += item.grid.patches();
    most = std::max(most, patches);
  }
  std::vector<SamplePack> packs;
  // All tiles have one size, so there is one length to measure.
  const std::vector<Grid> frames = config.vision->cuts_tiles()
                                       ? std::vector<Grid>{{1, largest.rows, largest.columns}}
                                       : frames_below(largest, config.vision->merge);
  for (const Grid& frame : frames) {
    const data::EncodedSample sample = make_image(config, frame);
    const std::int64_t fit = capacity.count / std::ssize(sample.tokens);
    const std::int64_t count = std::min(fit, std::max<std::int64_t>(1, most / frame.patches()));
    if (count > 0) packs.emplace_back(static_cast<std::size_t>(count), sample);
  }
  return packs;
}

}  // namespace tributary::train
