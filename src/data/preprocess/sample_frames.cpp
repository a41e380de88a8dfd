#include "data/preprocess/sample_frames.h"

#include <algorithm>
#include <cmath>

namespace tributary::data {
namespace {

constexpr double kMin = 4;
constexpr double kMax = 768;

/// Evenly from the first frame to the last, rounded to even.
std::vector<std::int64_t> spread_over(std::int64_t total, std::int64_t count) {
  std::vector<std::int64_t> indices;
  const double step =
      count > 1 ? static_cast<double>(total - 1) / static_cast<double>(count - 1) : 0;
  for (std::int64_t i = 0; i < count; ++i)
    indices.push_back(i > 0 && i + 1 == count
                          ? total - 1
                          : std::llrint(std::nearbyint(static_cast<double>(i) * step)));
  return indices;
}

/// From the first frame on in equal steps, rounded down.
std::vector<std::int64_t> step_through(std::int64_t total, std::int64_t count) {
  std::vector<std::int64_t> indices;
  // As an f32 range has it, whose elements are computed in f64 and rounded.
  const double step = static_cast<double>(total) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i)
    indices.push_back(static_cast<std::int64_t>(static_cast<float>(static_cast<double>(i) * step)));
  return indices;
}

}  // namespace

std::vector<std::int64_t> sample_frames(std::int64_t total, double video_fps, double fps,
                                        const PreprocessorConfig& config) {
  const auto all = static_cast<double>(total);
  double wanted = all / video_fps * fps;
  if (config.limits_whole_clip) {  // Qwen3-VL
    wanted = std::min({std::max(std::trunc(wanted), kMin), kMax, all});
    return spread_over(total, static_cast<std::int64_t>(wanted));
  }
  const auto joined = static_cast<double>(config.temporal_patch);
  const double max = std::floor(std::min(kMax, all) / joined) * joined;
  wanted = std::floor(std::min({std::max(wanted, kMin), max, all}) / joined) * joined;
  // A video of fewer frames than the tower joins is taken whole; the reference refuses it.
  if (wanted < 1) return step_through(total, total);
  return step_through(total, static_cast<std::int64_t>(wanted));
}

}  // namespace tributary::data
