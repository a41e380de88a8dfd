#pragma once

#include <cstdint>
#include <vector>

#include "data/preprocess/preprocessor_config.h"

namespace tributary::data {

/// The numbers of the frames that are taken of a video of `total` frames at `video_fps`, so that
/// there are `fps` a second, and at least 4 and at most 768.
///
/// shape:  returns indices, ascending; with a tower that joins frames and no times in the text an
///         even number of them
/// source: the samplers of transformers' processors of Qwen2-VL and Qwen3-VL; docs/formats/data.md
[[nodiscard]] std::vector<std::int64_t> sample_frames(std::int64_t total, double video_fps,
                                                      double fps, const PreprocessorConfig& config);

}  // namespace tributary::data
