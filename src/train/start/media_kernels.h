#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/preprocess/whisper.h"
#include "data/sample.h"

namespace tributary::train {

// The functions of `ops` that the room `data` is handed, because it has no torch.
/// As data::Resize.
[[nodiscard]] data::Picture resize_picture(const data::Picture& picture, int height, int width);
/// As data::LogMel.
[[nodiscard]] std::vector<float> frame_samples(std::span<const float> samples,
                                               const data::SoundConfig& config,
                                               std::int64_t frames);

}  // namespace tributary::train
