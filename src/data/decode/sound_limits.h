#pragma once

#include <optional>

#include "core/result.h"

namespace tributary::data {

/// Limits of a file of sound, checked on its header before a sample is decoded. Where the header
/// does not tell, decoding ends at the limit.
struct SoundLimits {
  double max_seconds = 600;
  int max_channels = 32;
  int min_rate = 1000;
  int max_rate = 384000;
};

/// Refuses a rate [samples a second] or a number of channels: `sound_limit`; null when both are
/// fine.
[[nodiscard]] std::optional<Refusal> refuse_sound(int rate, int channels,
                                                  const SoundLimits& limits);

}  // namespace tributary::data
