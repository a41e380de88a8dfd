#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "data/decode/sound_limits.h"

namespace tributary::data {

/// What the header of a file of sound says.
struct SoundSize {
  std::int64_t samples = 0;  // of each channel
  int rate = 0;              // samples a second

  friend bool operator==(const SoundSize&, const SoundSize&) = default;
};

/// Sound of one channel, from -1 to 1.
struct Sound {
  int rate = 0;  // samples a second
  std::vector<float> samples;
};

/// Decodes a WAV, FLAC, Ogg (Vorbis, Opus) or MP3 file, and takes the mean of its channels, as
/// librosa.load and soundfile do: the decoder is theirs, libsndfile.
///
/// The sound of an M4A, MP4, WebM, Matroska, AVI, ASF or AAC file is decoded by FFmpeg's libraries.
/// The first bytes decide the format, never the name.
/// errors: Refusal `unknown_sound`, `sound_limit`, `empty_sound`, `sound_damaged`; `video_reader`
///         where a file needs FFmpeg's libraries and the build has none
[[nodiscard]] Result<Sound> decode_sound(std::span<const std::uint8_t> file,
                                         const SoundLimits& limits = {});

/// Reads only the header of a whole file; checks the limits too. Of a file for FFmpeg's libraries
/// all samples are decoded and counted, as no header tells their number exactly.
/// errors: as decode_sound
[[nodiscard]] Result<SoundSize> read_sound_size(std::span<const std::uint8_t> file,
                                                const SoundLimits& limits = {});

}  // namespace tributary::data
