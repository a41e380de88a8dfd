#include "data/preprocess/resample.h"

#include <cmath>
#include <dlfcn.h>
#include <soxr.h>

#include "core/error.h"

namespace tributary::data {
namespace {

constexpr const char* kLibrary = "libsoxr.so.0";

struct Soxr {
  decltype(&soxr_quality_spec) quality_spec = nullptr;
  decltype(&soxr_oneshot) oneshot = nullptr;
};

/// Opened when first used. libsoxr brings libgomp, which reads how long its threads spin as it is
/// loaded: a program that is linked with it cannot say so any more (app/engine/load_engine.cpp).
Soxr open_soxr() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    TRIB_RAISE(Fault::kResource, .what = "data: cannot resample sounds", .where = kLibrary,
               .found = dlerror(), .fix = "install libsoxr0");
  Soxr soxr;
  soxr.quality_spec =
      reinterpret_cast<decltype(soxr.quality_spec)>(dlsym(library, "soxr_quality_spec"));
  soxr.oneshot = reinterpret_cast<decltype(soxr.oneshot)>(dlsym(library, "soxr_oneshot"));
  return soxr;
}

}  // namespace

std::int64_t resampled_length(SoundSize size, std::int64_t rate) {
  if (size.rate == rate) return size.samples;
  // In the reference's order of operations.
  const double ratio = static_cast<double>(rate) / static_cast<double>(size.rate);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(size.samples) * ratio));
}

std::vector<float> resample(const Sound& sound, std::int64_t rate) {
  if (sound.rate == rate) return sound.samples;
  static const Soxr soxr = open_soxr();
  const auto length =
      static_cast<std::size_t>(resampled_length({std::ssize(sound.samples), sound.rate}, rate));
  std::vector<float> result(length + 1);
  const soxr_quality_spec_t quality = soxr.quality_spec(SOXR_HQ, 0);
  std::size_t made = 0;
  const soxr_error_t error =
      soxr.oneshot(sound.rate, static_cast<double>(rate), /*num_channels=*/1, sound.samples.data(),
                   sound.samples.size(), nullptr, result.data(), result.size(), &made, nullptr,
                   &quality, nullptr);
  if (error != nullptr)
    TRIB_RAISE(Fault::kResource, .what = "data: cannot resample a sound", .found = error);
  result.resize(made);
  result.resize(length);  // zeros at the end, as librosa fills up
  return result;
}

}  // namespace tributary::data
