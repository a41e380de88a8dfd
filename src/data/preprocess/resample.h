#pragma once

#include <cstdint>
#include <vector>

#include "data/decode/sound_file.h"

namespace tributary::data {

/// The number of samples that a sound has at another rate: ceil(samples * rate / size.rate).
[[nodiscard]] std::int64_t resampled_length(SoundSize size, std::int64_t rate);

/// Brings samples to another rate by libsoxr's quality HQ, as librosa.load does by default.
///
/// shape:  returns resampled_length samples
/// errors: Fault::kResource when libsoxr is not there or has no memory
[[nodiscard]] std::vector<float> resample(const Sound& sound, std::int64_t rate);

}  // namespace tributary::data
