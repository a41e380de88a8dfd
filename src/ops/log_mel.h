#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tributary::ops {

/// A spectrogram on the mel scale: `window` samples a spectrum, `step` samples between frames.
struct MelShape {
  std::int64_t rate = 16000;  // samples a second
  std::int64_t window = 400;
  std::int64_t step = 160;
  std::int64_t bins = 128;
  std::int64_t clip = 480000;  // samples of the whole clip
};

/// The log-mel spectrogram of Whisper, by the same functions of ATen as in transformers: power
/// spectra under a Hann window, Slaney's triangles from 0 to 8000 Hz, log10, at most 8 below the
/// loudest, then (x + 4) / 4.
///
/// Silence fills the sound up to the clip; only the frames that are asked for, and all that hear
/// the sound, are computed.
/// shape:  samples [at most clip] -> returns [frames, bins]
/// errors: Fault::kInput when the sound is longer than the clip, or `frames` end before the sound
/// cost:   in the calling thread; safe to call from many threads
/// source: docs/theory/numerics.md, "Encoder of sound"
[[nodiscard]] std::vector<float> log_mel(std::span<const float> samples, const MelShape& shape,
                                         std::int64_t frames);

}  // namespace tributary::ops
