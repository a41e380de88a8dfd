#include "train/profile/length_packs.h"

#include <algorithm>

#include "config/family/known_modules.h"
#include "train/profile/crowded_rounds.h"

namespace tributary::train {
namespace {

constexpr std::int64_t kShortest = 16;
constexpr std::size_t kMaxTextPacks = 8;
constexpr std::size_t kMaxItemPacks = 6;  // of an encoder

/// The lowest token that says nothing of media.
std::int32_t plain_token(const config::TokenIds& ids) {
  std::int32_t token = 0;
  while (config::is_of_media(ids, token)) ++token;
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

/// A sample of one item.
data::EncodedSample make_sample(const config::ModelConfig& config,
                                const config::FrontModule& encoder, const Grid& grid) {
  const Modality modality = encoder.takes.front();
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(encoder.item.tokens(config, grid)),
      static_cast<std::int32_t>(config::pad_of(config.tokens, modality)));
  tokens.push_back(plain_token(config.tokens));
  data::EncodedSample sample = make_sample(std::move(tokens));
  data::PatchedItem item{.modality = modality, .grid = grid, .seconds_per_step = 0, .rows = {}};
  item.rows.resize(static_cast<std::size_t>(grid.patches() * encoder.row_width));
  for (std::size_t i = 0; i < item.rows.size(); ++i)
    item.rows[i] = static_cast<float>(i % 17) / 17 - 0.5F;
  sample.items.push_back(std::move(item));
  return sample;
}

/// The items of an encoder in samples.
std::vector<Grid> items_of(const config::FrontModule& encoder,
                           std::span<const data::EncodedSample* const> samples) {
  std::vector<Grid> items;
  for (const data::EncodedSample* sample : samples)
    for (const data::PatchedItem& item : sample->items)
      if (std::ranges::count(encoder.takes, item.modality) > 0) items.push_back(item.grid);
  return items;
}

/// The item of the largest frame, and those of its half, its quarter, ...; empty without items.
std::vector<Grid> halve_largest(const config::ModelConfig& config,
                                const config::FrontModule& encoder,
                                const std::vector<Grid>& items) {
  std::vector<Grid> halves;
  if (items.empty()) return halves;
  Grid next = *std::ranges::max_element(items, {},
                                        [](const Grid& item) { return item.rows * item.columns; });
  next = {1, next.rows, next.columns};
  while (halves.size() < kMaxItemPacks && (halves.empty() || !(halves.back() == next))) {
    halves.push_back(next);
    next = encoder.item.half(config, next);
  }
  return halves;
}

std::int64_t count_rows(const std::vector<Grid>& items) {
  std::int64_t rows = 0;
  for (const Grid& item : items) rows += item.patches();
  return rows;
}

void add_packs(const config::ModelConfig& config, const config::FrontModule& encoder,
               Tokens capacity, std::span<const data::EncodedSample> samples,
               std::vector<SamplePack>& packs) {
  std::vector<const data::EncodedSample*> all;
  for (const data::EncodedSample& sample : samples) all.push_back(&sample);
  std::int64_t max = 0;
  for (const auto& members : fill_microbatches(samples, capacity, samples.size()).microbatches)
    max = std::max(max, count_rows(items_of(encoder, members)));
  for (const Grid& item : halve_largest(config, encoder, items_of(encoder, all))) {
    const data::EncodedSample sample = make_sample(config, encoder, item);
    const std::int64_t fit = capacity.count / std::ssize(sample.tokens);
    const std::int64_t count = std::min(fit, std::max<std::int64_t>(1, max / item.patches()));
    if (count > 0) packs.emplace_back(static_cast<std::size_t>(count), sample);
  }
}

}  // namespace

std::vector<SamplePack> make_text_packs(const config::ModelConfig& config, Tokens capacity) {
  std::vector<SamplePack> packs;
  for (std::int64_t length =
           std::min(capacity.count, config.backbone.max_tokens().value_or(capacity.count));
       packs.size() < kMaxTextPacks && (packs.empty() || length >= kShortest); length /= 2) {
    const data::EncodedSample sample = make_sample(
        std::vector<std::int32_t>(static_cast<std::size_t>(length), plain_token(config.tokens)));
    packs.emplace_back(static_cast<std::size_t>(capacity.count / length), sample);
  }
  return packs;
}

std::vector<SamplePack> make_item_packs(const config::ModelConfig& config, Tokens capacity,
                                        std::span<const data::EncodedSample> samples) {
  std::vector<SamplePack> packs;
  for (const config::FrontModule& module : config::front_modules(config))
    if (module.is_encoder()) add_packs(config, module, capacity, samples, packs);
  return packs;
}

}  // namespace tributary::train
