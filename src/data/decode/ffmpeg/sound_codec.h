#pragma once

#include <cstdint>
#include <span>

#include "data/decode/sound_file.h"

namespace tributary::data {

/// As read_sound_size, of the first stream of sound in a container that FFmpeg knows. No header
/// tells the number of samples exactly, so all are decoded and counted.
///
/// errors: Refusal `empty_sound`, `sound_limit`; `sound_damaged` also where much less can be
/// decoded
///         than the container says
[[nodiscard]] Result<SoundSize> count_samples(std::span<const std::uint8_t> file,
                                              const SoundLimits& limits);

/// As decode_sound. errors: as count_samples
[[nodiscard]] Result<Sound> decode_stream(std::span<const std::uint8_t> file,
                                          const SoundLimits& limits);

}  // namespace tributary::data
