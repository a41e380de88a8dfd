#include "data/decode/sound_limits.h"

#include "core/text.h"

namespace tributary::data {

std::optional<Refusal> refuse_sound(int rate, int channels, const SoundLimits& limits) {
  if (rate < limits.min_rate || rate > limits.max_rate)
    return Refusal{"sound_limit", str(rate, " samples a second, expected ", limits.min_rate, " to ",
                                      limits.max_rate)};
  if (channels < 1 || channels > limits.max_channels)
    return Refusal{"sound_limit", str(channels, " channels, expected 1 to ", limits.max_channels)};
  return std::nullopt;
}

}  // namespace tributary::data
