#include "train/start/media_kernels.h"

#include "ops/log_mel.h"
#include "ops/resize_bicubic.h"

namespace tributary::train {

data::Picture resize_picture(const data::Picture& picture, int height, int width) {
  return {.width = width,
          .height = height,
          .rgb = ops::resize_bicubic(picture.rgb, picture.height, picture.width, height, width)};
}

std::vector<float> frame_samples(std::span<const float> samples, const data::SoundConfig& config,
                                 std::int64_t frames) {
  return ops::log_mel(samples,
                      {.rate = config.rate,
                       .window = config.window,
                       .step = config.step,
                       .bins = config.model.mel_bins,
                       .clip = config.max_samples()},
                      frames);
}

}  // namespace tributary::train
