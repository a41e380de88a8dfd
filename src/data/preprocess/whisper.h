#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/family/model_config.h"
#include "core/result.h"
#include "data/decode/sound_file.h"
#include "data/sample.h"

namespace tributary::data {

/// The settings of the feature extractor of Whisper.
struct SoundConfig {
  config::AudioConfig model;
  std::int64_t rate = 16000;  // samples a second
  std::int64_t window = 400;  // samples of one spectrum
  std::int64_t step = 160;    // samples from one frame to the next

  /// Samples of the longest sound.
  [[nodiscard]] std::int64_t max_samples() const { return step * model.max_frames(); }
};

/// Makes the log-mel spectrogram of a sound that silence fills up to the longest one, and returns
/// its first `frames`. Callers pass `ops/log_mel.h`, which computes as transformers does; it needs
/// torch, which this room may not use. shape: returns [frames, mel_bins]
using LogMel = std::function<std::vector<float>(std::span<const float> samples,
                                                const SoundConfig& config, std::int64_t frames)>;

/// Reads the settings of DIRECTORY's processor (processor_file.h); where a file or a field is
/// absent, they are those above.
///
/// errors: Fault::kInput naming file and field: wrong type, another size than config.json says
[[nodiscard]] SoundConfig read_sound_config(const std::string& directory,
                                            const config::AudioConfig& model);

/// The frames of a sound's spectrogram that the encoder takes.
///
/// errors: Refusal `long_sound` beyond what the model hears, `short_sound` when it gives no token
[[nodiscard]] Result<Grid> grid_of_sound(SoundSize size, const SoundConfig& config);

/// Makes the rows that the encoder takes.
///
/// shape:  rows [grid.patches(), mel_bins]
/// errors: those of grid_of_sound
/// source: docs/theory/numerics.md, "Encoder of sound"
[[nodiscard]] Result<PatchedItem> frame_sound(const Sound& sound, const SoundConfig& config,
                                              const LogMel& log_mel);

}  // namespace tributary::data
