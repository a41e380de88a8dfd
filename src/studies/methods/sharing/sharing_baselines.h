#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/certificate.h"
#include "plan/sharing/sharing_problem.h"

namespace tributary::studies {

/// A module of a wave, or some of its layers.
struct WaveModule {
  std::int32_t module = 0;
  std::int64_t devices = 1;
  std::int64_t units = 1;  // share units on each device
  double part = 1;         // fraction of the module that runs in this wave
  Nanoseconds time = {};   // of this part, slowed by the others
  double busy = 0;         // mean fraction of the time in which kernels run on the devices;
                           // 0 where the problem does not say
  std::vector<std::int64_t> on = {};  // the devices; empty: not placed yet
};

/// Modules that run at the same time in a baseline.
struct BaselineWave {
  Nanoseconds time = {};
  std::vector<WaveModule> modules = {};
};

struct SharingAnswer {
  plan::Certificate certificate = {};  // with the bound of the method's own space
  std::vector<BaselineWave> waves = {};
};

/// A published way to place a graph of modules on devices, with its name.
struct SharingBaseline {
  std::string_view name;
  std::string_view source;
  SharingAnswer (*solve)(const plan::SharingProblem& problem);
};

/// The list that `compare` and the tests go through; `exact` is last.
[[nodiscard]] std::span<const SharingBaseline> sharing_baselines();

/// Time of a module on any number of whole devices: where it is not known, linear in the logarithm
/// of the devices between the widths of its table; never longer than on fewer.
[[nodiscard]] Nanoseconds time_on_devices(const plan::SharingProblem& problem, std::int64_t module,
                                          double devices);
/// A module, or a part of it, on `devices` whole devices in this time.
[[nodiscard]] WaveModule on_whole_devices(const plan::SharingProblem& problem, std::int32_t module,
                                          std::int64_t devices, double part = 1);

/// Each module on all devices, one after another.
[[nodiscard]] SharingAnswer solve_temporal(const plan::SharingProblem& problem);
/// The modules of a level on whole devices of their own, so that the slowest ends first; with
/// barriers between levels.
[[nodiscard]] SharingAnswer solve_distmm(const plan::SharingProblem& problem);
/// Microbatches of a pipeline of levels; each takes its part of the batch's time.
inline constexpr std::int64_t kPipedMicrobatches = 16;
/// The same, or several levels at once on their own devices: microbatches go through them in a
/// pipeline, all forwards before all backwards. It tries divisions of the devices from the min time
/// of the slowest module on, so its answer is not proven.
[[nodiscard]] SharingAnswer solve_distmm_pipe(const plan::SharingProblem& problem);
/// The modules of a level in waves. A wave starts from the continuous division in which all modules
/// end together, rounded to whole devices. It is cut where the first module ends, or, if that is
/// shorter, where the layers end that a module runs on this number of devices (bi-point rounding:
/// some on the number below, the others on the number above).
[[nodiscard]] SharingAnswer solve_spindle(const plan::SharingProblem& problem);
/// The greedy merging of stages with shares of devices.
[[nodiscard]] SharingAnswer solve_mosaic(const plan::SharingProblem& problem);
/// The same merging as if modules on one device did not slow each other; its stages then do.
[[nodiscard]] SharingAnswer solve_mosaic_unaware(const plan::SharingProblem& problem);

}  // namespace tributary::studies
