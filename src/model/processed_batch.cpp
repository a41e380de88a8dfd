#include "model/processed_batch.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/nearest_name.h"
#include "model/positions.h"
#include "model/tile_inputs.h"

namespace tributary::model {
namespace {

using Inputs = std::map<std::string, at::Tensor>;

constexpr std::int64_t kIgnoredTarget = -100;

at::Tensor find(const Inputs& inputs, const std::string& name) {
  const auto entry = inputs.find(name);
  return entry == inputs.end() ? at::Tensor() : entry->second;
}

void require_known_names(const Inputs& inputs) {
  static const std::vector<std::string> known{
      "input_ids",      "attention_mask",         "position_ids",         "pixel_values",
      "image_grid_thw", "pixel_values_videos",    "video_grid_thw",       "second_per_grid_ts",
      "labels",         "mm_token_type_ids",      "image_sizes",          "batch_num_images",
      "input_features", "feature_attention_mask", "video_second_per_grid"};
  for (const auto& [name, tensor] : inputs) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    TRIB_RAISE(Fault::kInput, .what = "model: input that no model here takes",
               .found = escaped(name),
               .expected = "the names that a Hugging Face processor gives: input_ids, ...",
               .fix = nearest.empty() ? nearest : "nearest known name: " + nearest);
  }
}

/// shape: [rows, columns] like input_ids, as i64
at::Tensor like_ids(const Inputs& inputs, const std::string& name, const at::Tensor& ids) {
  const at::Tensor tensor = find(inputs, name);
  if (!tensor.defined()) return tensor;
  TRIB_REQUIRE(!tensor.is_floating_point() && tensor.sizes() == ids.sizes(),
               .what = "model: input does not fit input_ids", .where = name,
               .found = tributary::str(at::toString(tensor.scalar_type()), " ", tensor.sizes()),
               .expected = tributary::str("whole numbers ", ids.sizes()));
  return tensor.to(at::kLong).contiguous();
}

struct Positions {
  at::Tensor axes;  // [3, rows, columns]; undefined when they are to be derived
  at::Tensor text;  // [rows, columns]: where they fall back a sample begins; or undefined
};

Positions read_positions(const Inputs& inputs, const at::Tensor& ids) {
  const at::Tensor given = find(inputs, "position_ids");
  if (!given.defined()) return {};
  const bool fits = !given.is_floating_point() &&
                    (given.sizes() == ids.sizes() ||
                     (given.dim() == 3 && (given.size(0) == 3 || given.size(0) == 4) &&
                      given.size(1) == ids.size(0) && given.size(2) == ids.size(1)));
  TRIB_REQUIRE(fits, .what = "model: input does not fit input_ids", .where = "position_ids",
               .found = tributary::str(at::toString(given.scalar_type()), " ", given.sizes()),
               .expected = tributary::str("whole numbers ", ids.sizes(),
                                          ", or 3 or 4 such tables: [3 or 4, rows, columns]"));
  const at::Tensor all = given.to(at::kLong).contiguous();
  if (all.dim() == 2) return {.axes = all.unsqueeze(0).expand({3, -1, -1}), .text = all};
  if (all.size(0) == 3) return {.axes = all, .text = {}};
  return {.axes = all.narrow(0, 1, 3), .text = all.select(0, 0)};
}

at::Tensor as_f32(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kFloat).contiguous() : tensor;
}

EncoderInput read_media(const Inputs& inputs, const std::string& grids_name,
                        const std::string& pixels_name) {
  EncoderInput media{.rows = as_f32(find(inputs, pixels_name)), .grids = {}};
  const at::Tensor given = find(inputs, grids_name);
  TRIB_REQUIRE(given.defined() == media.rows.defined(),
               .what = "model: pixels and grids come together",
               .found = given.defined() ? grids_name : pixels_name,
               .expected = str(pixels_name, " and ", grids_name));
  if (!given.defined()) return media;
  TRIB_REQUIRE(!given.is_floating_point() && given.dim() == 2 && given.size(1) == 3,
               .what = "model: input of another shape", .where = grids_name,
               .found = tributary::str(given.sizes()),
               .expected = "[items, 3]: steps in time, rows, columns");
  const at::Tensor table = given.to(at::kLong).contiguous();
  const std::int64_t* numbers = table.const_data_ptr<std::int64_t>();
  std::int64_t patches = 0;
  for (std::int64_t i = 0; i < table.size(0); ++i) {
    media.grids.push_back({numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]});
    patches += media.grids.back().patches();
  }
  TRIB_REQUIRE(media.rows.dim() == 2 && media.rows.size(0) == patches,
               .what = "model: patches do not fill the grids", .where = pixels_name,
               .found = tributary::str(media.rows.sizes()),
               .expected = str("[", patches, ", patch width]"));
  return media;
}

/// Spectrograms padded to one length: of each sound the frames that its positions depend on.
EncoderInput read_sounds(const Inputs& inputs, const std::optional<config::AudioConfig>& audio) {
  const at::Tensor features = as_f32(find(inputs, "input_features"));
  const at::Tensor mask = find(inputs, "feature_attention_mask");
  TRIB_REQUIRE(features.defined() == mask.defined(),
               .what = "model: sounds and their masks come together",
               .found = mask.defined() ? "feature_attention_mask" : "input_features",
               .expected = "input_features and feature_attention_mask");
  EncoderInput sounds;
  if (!features.defined()) return sounds;
  TRIB_REQUIRE(audio.has_value(), .what = "model: a model without an encoder of sound takes none",
               .where = "input_features");
  // Whole sounds are padded to the longest one, chunks to any length.
  const std::int64_t frames = audio->chunk > 0 ? mask.size(-1) : audio->max_frames();
  const std::vector<std::int64_t> shape{features.size(0), audio->mel_bins, frames};
  TRIB_REQUIRE(
      features.sizes() == shape && mask.dim() == 2 && mask.size(0) == shape[0] &&
          mask.size(1) == shape[2],
      .what = "model: input of another shape", .where = "input_features, feature_attention_mask",
      .found = tributary::str(features.sizes(), ", ", mask.sizes()),
      .expected =
          tributary::str("[sounds, ", shape[1], ", ", shape[2], "], [sounds, ", shape[2], "]"));
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    sounds.grids.push_back(audio->grid_of(mask[i].sum().item<std::int64_t>()));
    rows.push_back(features[i].t().narrow(0, 0, sounds.grids.back().columns));
  }
  if (!rows.empty()) sounds.rows = at::cat(rows);
  return sounds;
}

/// Fills places and cu_seqlens: which tokens there are, and where samples begin.
void find_samples(ProcessedBatch& batch, const at::Tensor& mask, const at::Tensor& text_positions) {
  const std::int64_t* real = mask.defined() ? mask.const_data_ptr<std::int64_t>() : nullptr;
  const std::int64_t* position = !mask.defined() && text_positions.defined()
                                     ? text_positions.const_data_ptr<std::int64_t>()
                                     : nullptr;
  std::vector<std::int64_t> places;
  batch.pack.cu_seqlens = {0};
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t column = 0; column < batch.columns; ++column) {
      const std::int64_t place = row * batch.columns + column;
      if (real != nullptr && real[place] == 0) continue;
      const bool restarts =
          position != nullptr && column > 0 && position[place] <= position[place - 1];
      if (restarts) batch.pack.cu_seqlens.push_back(static_cast<std::int32_t>(places.size()));
      places.push_back(place);
    }
    const auto end = static_cast<std::int32_t>(places.size());
    if (end > batch.pack.cu_seqlens.back()) batch.pack.cu_seqlens.push_back(end);
  }
  TRIB_REQUIRE(!places.empty(), .what = "model: batch holds no token",
               .where = "input_ids, attention_mask");
  batch.places = at::tensor(places, at::kLong);
}

/// The label of the next token of the same sample.
at::Tensor shift_labels(const at::Tensor& labels, const ProcessedBatch& batch) {
  const at::Tensor own = labels.flatten().index_select(0, batch.places);
  at::Tensor targets = at::full_like(own, kIgnoredTarget);
  if (own.size(0) > 1)
    targets.narrow(0, 0, own.size(0) - 1).copy_(own.narrow(0, 1, own.size(0) - 1));
  for (std::size_t i = 1; i < batch.pack.cu_seqlens.size(); ++i)
    targets.select(0, batch.pack.cu_seqlens[i] - 1).fill_(kIgnoredTarget);
  return targets;
}

void require_targets_in_vocabulary(const at::Tensor& labels, std::int64_t vocab) {
  const at::Tensor bad =
      at::logical_and(labels != kIgnoredTarget, at::logical_or(labels < 0, labels >= vocab));
  if (!at::any(bad).item<bool>()) return;
  TRIB_RAISE(Fault::kInput, .what = "model: label outside the vocabulary", .where = "labels",
             .found = str(labels.masked_select(bad)[0].item<std::int64_t>()),
             .expected = str(kIgnoredTarget, " or 0 to ", vocab - 1));
}

at::Tensor derive_positions(const config::ModelConfig& config, const ProcessedBatch& batch,
                            const Inputs& inputs, config::MropeMode mode) {
  std::vector<double> seconds;
  at::Tensor given = find(inputs, "second_per_grid_ts");
  if (!given.defined()) given = find(inputs, "video_second_per_grid");  // of Qwen2.5-Omni
  if (given.defined()) {
    const at::Tensor list = given.to(at::kDouble).flatten().contiguous();
    seconds.assign(list.const_data_ptr<double>(), list.const_data_ptr<double>() + list.numel());
    TRIB_REQUIRE(seconds.size() == batch.pack.of(Modality::kVideo).grids.size(),
                 .what = "model: one duration a clip", .where = "second_per_grid_ts",
                 .found = str(seconds.size(), " numbers"),
                 .expected = str(batch.pack.of(Modality::kVideo).grids.size()));
  }
  const std::int64_t* tokens = batch.pack.input_ids.const_data_ptr<std::int64_t>();
  return position_ids(config,
                      {.tokens = {tokens, static_cast<std::size_t>(batch.pack.input_ids.numel())},
                       .cu_seqlens = batch.pack.cu_seqlens,
                       .images = batch.pack.of(Modality::kImage).grids,
                       .videos = batch.pack.of(Modality::kVideo).grids,
                       .seconds_per_step = seconds},
                      mode);
}

}  // namespace

ProcessedBatch pack_processed(const config::ModelConfig& config, const Inputs& inputs,
                              config::MropeMode mode) {
  require_known_names(inputs);
  const at::Tensor given_ids = find(inputs, "input_ids");
  TRIB_REQUIRE(given_ids.defined() && !given_ids.is_floating_point() && given_ids.dim() == 2,
               .what = "model: input_ids are missing or of another shape", .where = "input_ids",
               .found = given_ids.defined() ? tributary::str(given_ids.sizes()) : "nothing",
               .expected = "whole numbers [rows, columns]");
  const at::Tensor ids = given_ids.to(at::kLong).contiguous();
  const Positions positions = read_positions(inputs, ids);

  ProcessedBatch batch;
  batch.rows = ids.size(0);
  batch.columns = ids.size(1);
  find_samples(batch, like_ids(inputs, "attention_mask", ids), positions.text);
  PackedBatch& pack = batch.pack;
  pack.input_ids = ids.flatten().index_select(0, batch.places);
  if (config.vision && config.vision->cuts_tiles()) {
    pack.media = read_tiles(*config.vision, inputs);
  } else {
    pack.media[Modality::kImage] = read_media(inputs, "image_grid_thw", "pixel_values");
    pack.media[Modality::kVideo] = read_media(inputs, "video_grid_thw", "pixel_values_videos");
  }
  pack.media[Modality::kAudio] = read_sounds(inputs, config.audio);
  pack.position_ids = positions.axes.defined()
                          ? positions.axes.flatten(1).index_select(1, batch.places)
                          : derive_positions(config, batch, inputs, mode);
  require_in_rope(config.backbone, pack.position_ids);
  if (const at::Tensor labels = like_ids(inputs, "labels", ids); labels.defined()) {
    require_targets_in_vocabulary(labels, config.backbone.vocab);
    batch.targets = shift_labels(labels, batch);
  }
  return batch;
}

}  // namespace tributary::model
