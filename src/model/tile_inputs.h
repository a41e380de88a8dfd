#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "config/family/model_config.h"
#include "model/model.h"

namespace tributary::model {

/// The images and clips that the processor of a family of tiles gives, as rows of patches.
///
/// InternVL: `pixel_values` [tiles, channels, side, side], where nothing says which tiles are one
/// picture; each becomes an item, which changes no number. LLaVA-OneVision: `pixel_values`
/// [images, most tiles, channels, side, side] with `image_sizes` [images, 2] and, where samples
/// have several images, `batch_num_images` [samples]; `pixel_values_videos` [clips, frames, ...].
/// errors: Fault::kInput naming the tensor: missing or of another shape
[[nodiscard]] std::map<Modality, EncoderInput> read_tiles(
    const config::VisionConfig& vision, const std::map<std::string, at::Tensor>& inputs);

}  // namespace tributary::model
