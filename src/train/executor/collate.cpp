#include "train/executor/collate.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "model/positions.h"
#include "ops/to_device.h"

namespace tributary::train {
namespace {

using Samples = std::span<const data::EncodedSample* const>;

/// The rows of all items of one modality, undefined without items, and their grids.
model::EncoderInput join_media(Samples samples, Modality modality, std::int64_t row_width,
                               bool with_rows) {
  model::EncoderInput media;
  std::int64_t rows = 0;
  for (const data::EncodedSample* sample : samples) {
    for (const data::PatchedItem& item : sample->items) {
      if (item.modality != modality) continue;
      const auto expected = static_cast<std::size_t>(item.grid.patches() * row_width);
      TRIB_CHECK(!with_rows || item.rows.size() == expected,
                 .what = "train: item has the wrong number of values", .where = sample->key,
                 .found = str(item.rows.size()), .expected = str(expected));
      media.grids.push_back(item.grid);
      rows += item.grid.patches();
    }
  }
  if (media.grids.empty() || !with_rows) return media;
  media.rows = at::empty({rows, row_width}, at::kFloat);
  auto* out = media.rows.data_ptr<float>();
  for (const data::EncodedSample* sample : samples)
    for (const data::PatchedItem& item : sample->items)
      if (item.modality == modality) out = std::copy(item.rows.begin(), item.rows.end(), out);
  return media;
}

/// Checks ids on the host: a device would only say that an assertion failed.
void require_known_ids(const data::EncodedSample& sample, std::int64_t vocab) {
  const auto is_known = [&](std::int64_t id) { return id >= 0 && id < vocab; };
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    const std::int64_t target = sample.targets[i];
    const bool is_target = target == data::kIgnoredTarget || is_known(target);
    TRIB_REQUIRE(is_known(sample.tokens[i]) && is_target,
                 .what = "train: token id outside the vocabulary", .where = sample.key,
                 .found = str(is_target ? "token " : "target ", i, " with id ",
                              is_target ? sample.tokens[i] : target),
                 .expected = str("0 to ", vocab - 1),
                 .fix = "use the tokenizer of this model, or set vocab_size in its config.json");
  }
}

/// The rows of an item among the samples of this rank.
std::span<const float> find_rows(std::span<const data::EncodedSample> samples,
                                 std::int64_t first_id, const schedule::MediaItem& item) {
  const auto sample =
      std::ranges::lower_bound(samples, first_id + item.sample, {}, &data::EncodedSample::id);
  std::int32_t place = 0;
  if (sample != samples.end() && sample->id == first_id + item.sample)
    for (const data::PatchedItem& own : sample->items) {
      if (own.modality != item.modality || place++ != item.place) continue;
      const std::size_t frame = own.rows.size() / static_cast<std::size_t>(own.grid.time);
      const std::size_t count = static_cast<std::size_t>(item.grid.time) * frame;
      const std::size_t first = static_cast<std::size_t>(item.first_frame) * frame;
      if (count > 0 && first + count <= own.rows.size())
        return std::span(own.rows).subspan(first, count);
    }
  TRIB_RAISE(Fault::kBug, .what = "train: rank has not the media that it encodes",
             .where = str("sample ", first_id + item.sample, ", item ", item.place));
}

}  // namespace

ModalitySet rows_taken_inline(const parallel::Layout& backbone, const RunLanes& run) {
  return backbone.holds(0) ? ModalitySet(kMediaModalities).without(run.taken_apart())
                           : ModalitySet();
}

model::EncoderInput collate_encoder_input(std::span<const data::EncodedSample> samples,
                                          std::span<const schedule::MediaItem> items,
                                          std::int64_t first_id, const parallel::Layout& encoder,
                                          at::Device device) {
  model::EncoderInput input;
  std::vector<at::Tensor> rows;
  for (const schedule::MediaItem& item : items) {
    input.grids.push_back(item.grid);
    if (!encoder.holds(0)) continue;
    const std::span<const float> values = find_rows(samples, first_id, item);
    rows.push_back(at::from_blob(const_cast<float*>(values.data()),  // NOLINT: only read
                                 {item.grid.patches(), std::ssize(values) / item.grid.patches()},
                                 at::kFloat));
  }
  if (!rows.empty()) input.rows = ops::to_device(at::cat(rows), device);
  return input;
}

Microbatch idle_microbatch() {
  Microbatch idle;
  idle.batch.input_ids = at::zeros({1}, at::kLong);
  idle.batch.position_ids = at::zeros({3, 1}, at::kLong);
  idle.batch.cu_seqlens = {0, 1};
  idle.targets = at::full({1}, data::kIgnoredTarget, at::kLong);
  return idle;
}

Microbatch collate(Samples samples, const config::ModelConfig& config, config::MropeMode mode,
                   at::Device device, ModalitySet with_rows) {
  Microbatch result;
  model::PackedBatch& batch = result.batch;
  batch.cu_seqlens = {0};
  for (const data::EncodedSample* sample : samples) {
    TRIB_CHECK(
        sample->targets.size() == sample->tokens.size(),
        .what = "train: sample has not one target a token", .where = sample->key,
        .found = str(sample->targets.size(), " targets, ", sample->tokens.size(), " tokens"));
    require_known_ids(*sample, config.backbone.vocab);
    const auto end = batch.cu_seqlens.back() + static_cast<std::int32_t>(sample->tokens.size());
    if (sample->rejected > 0) {
      batch.cu_seqlens.push_back(end - static_cast<std::int32_t>(sample->rejected));
      result.pair_sources.push_back(sample->source);
    }
    batch.cu_seqlens.push_back(end);
  }
  const std::int64_t tokens = batch.cu_seqlens.back();
  batch.input_ids = at::empty({tokens}, at::kLong);
  result.targets = at::empty({tokens}, at::kLong);
  auto* ids = batch.input_ids.data_ptr<std::int64_t>();
  auto* targets = result.targets.data_ptr<std::int64_t>();
  for (const data::EncodedSample* sample : samples) {
    ids = std::copy(sample->tokens.begin(), sample->tokens.end(), ids);
    targets = std::copy(sample->targets.begin(), sample->targets.end(), targets);
    const auto counted = std::count_if(sample->targets.begin(), sample->targets.end(),
                                       [](std::int64_t t) { return t != data::kIgnoredTarget; });
    result.target_sources.insert(result.target_sources.end(), static_cast<std::size_t>(counted),
                                 sample->source);
  }

  std::vector<double> seconds;
  for (const data::EncodedSample* sample : samples)
    for (const data::PatchedItem& item : sample->items)
      if (item.modality == Modality::kVideo) seconds.push_back(item.seconds_per_step);
  for (const config::FrontModule& module : config::front_modules(config))
    for (const Modality modality : module.takes)
      batch.media[modality] =
          join_media(samples, modality, module.row_width, with_rows.has(modality));
  batch.position_ids = model::position_ids(
      config,
      {.tokens = {batch.input_ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(tokens)},
       .cu_seqlens = batch.cu_seqlens,
       .images = batch.of(Modality::kImage).grids,
       .videos = batch.of(Modality::kVideo).grids,
       .seconds_per_step = seconds},
      mode);
  for (auto& [modality, own] : batch.media)
    if (own.rows.defined()) own.rows = ops::to_device(own.rows, device);
  return result;
}

}  // namespace tributary::train
