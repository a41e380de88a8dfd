#include "ops/log_mel.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/error.h"

namespace tributary::ops {
namespace {

constexpr double kHighest = 8000;  // Hz
constexpr double kLinearUntil = 1000;
constexpr double kMelsUntil = 15;  // at 1000 Hz
const double kLogStep = 27.0 / std::log(6.4);

double mel_of(double hertz) {
  return hertz < kLinearUntil ? 3 * hertz / 200
                              : kMelsUntil + std::log(hertz / kLinearUntil) * kLogStep;
}

double hertz_of(double mel) {
  return mel < kMelsUntil ? 200 * mel / 3 : kLinearUntil * std::exp((mel - kMelsUntil) / kLogStep);
}

/// Triangles of equal area. shape: returns [bins, window / 2 + 1] f32
at::Tensor mel_filters(const MelShape& shape) {
  const std::int64_t spectrum = shape.window / 2 + 1;
  std::vector<double> corners;
  for (std::int64_t i = 0; i < shape.bins + 2; ++i)
    corners.push_back(
        hertz_of(mel_of(kHighest) * static_cast<double>(i) / static_cast<double>(shape.bins + 1)));
  const double half_rate = static_cast<double>(shape.rate / 2);
  at::Tensor filters = at::zeros({shape.bins, spectrum}, at::kFloat);
  auto* out = filters.mutable_data_ptr<float>();
  for (std::size_t bin = 0; bin + 2 < corners.size(); ++bin)
    for (std::int64_t i = 0; i < spectrum; ++i) {
      const double hertz = half_rate * static_cast<double>(i) / static_cast<double>(spectrum - 1);
      const double rise = (hertz - corners[bin]) / (corners[bin + 1] - corners[bin]);
      const double fall = (corners[bin + 2] - hertz) / (corners[bin + 2] - corners[bin + 1]);
      *out++ = static_cast<float>(std::max(0.0, std::min(rise, fall)) * 2 /
                                  (corners[bin + 2] - corners[bin]));
    }
  return filters;
}

}  // namespace

std::vector<float> log_mel(std::span<const float> samples, const MelShape& shape,
                           std::int64_t frames) {
  const std::int64_t in_clip = shape.clip / shape.step;
  TRIB_REQUIRE(std::ssize(samples) <= shape.clip && frames <= in_clip &&
                   (frames == in_clip || frames * shape.step >= std::ssize(samples)),
               .what = "ops: frames do not hold the sound",
               .found = str(samples.size(), " samples, ", frames, " frames"),
               .expected = str("at most ", shape.clip, " samples, frames to the end"));
  const c10::InferenceMode no_gradients;
  // Beyond the last frame that is asked for, those that hear the end of the sound.
  const std::int64_t more = shape.window / shape.step + 1;
  const std::int64_t length = frames + more < in_clip ? (frames + more) * shape.step : shape.clip;
  const at::Tensor sound = at::zeros({length}, at::kFloat);
  std::copy(samples.begin(), samples.end(), sound.mutable_data_ptr<float>());
  const at::Tensor spectra =
      at::stft(sound, shape.window, shape.step, /*win_length=*/shape.window,
               at::hann_window(shape.window, at::kFloat), /*center=*/true, "reflect",
               /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
  const at::Tensor power = spectra.narrow(1, 0, spectra.size(1) - 1).abs().square().contiguous();
  at::Tensor logs = at::matmul(mel_filters(shape), power).clamp_min(1e-10).log10();
  logs = (at::maximum(logs, logs.max() - 8.0) + 4.0) / 4.0;
  const at::Tensor rows = logs.narrow(1, 0, frames).t().contiguous();
  const float* first = rows.const_data_ptr<float>();
  return {first, first + rows.numel()};
}

}  // namespace tributary::ops
