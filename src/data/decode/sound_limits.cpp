#include "data/decode/sound_limits.h"

#include "core/text.h"

namespace tributary::data {

std::optional<Refusal> refuse_sound(int rate, int channels, const SoundLimits& limits) {
  if (rate < limits.least_rate || rate > limits.most_rate)
    return Refusal{"sound_limit", str(rate, " samples a second, expected ", limits.least_rate,
                                      " to ", limits.most_rate)};
  if (channels < 1 || channels > limits.most_channels)
    return Refusal{"sound_limit", str(channels, " channels, expected 1 to ", limits.most_channels)};
  return std::nullopt;
}

}  // namespace tributary::data
