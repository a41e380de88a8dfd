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
  std::int64_t units = 1;  // share units on each of these
  double part = 1;         // of the module, that runs in this wave
  Nanoseconds time = {};   // of that, slowed by the others
  double busy = 0;         // part of the time in which kernels run on the devices, their mean; 0
                           // where the problem does not say
  std::vector<std::int64_t> on = {};  // the devices; empty: not placed yet
};

/// Modules that run at the same time in a baseline.
struct BaselineWave {
  Nanoseconds time = {};
  std::vector<WaveModule> modules = {};
};

struct SharingAnswer {
  plan::Certificate certificate = {};  // the bound is that of the method's own space
  std::vector<BaselineWave> waves = {};
};

/// A published way to place a graph of modules on devices, under its own name.
struct SharingBaseline {
  std::string_view name;
  std::string_view source;
  SharingAnswer (*solve)(const plan::SharingProblem& problem);
};

/// All of them, and `exact` last: the list that `compare` and the tests go through.
[[nodiscard]] std::span<const SharingBaseline> sharing_baselines();

/// Time of a module on any number of whole devices: as it is known for them, else between the
/// widths of its table straight in the logarithm of the devices; never longer than on fewer.
[[nodiscard]] Nanoseconds time_on_devices(const plan::SharingProblem& problem, std::int64_t module,
                                          double devices);
/// A module, or a part of it, on so many whole devices in that time.
[[nodiscard]] WaveModule on_whole_devices(const plan::SharingProblem& problem, std::int32_t module,
                                          std::int64_t devices, double part = 1);

/// Each module alone on all devices, one after another.
[[nodiscard]] SharingAnswer solve_temporal(const plan::SharingProblem& problem);
/// Modules of a level on whole devices of their own so that the slowest ends first; barriers
/// between levels.
[[nodiscard]] SharingAnswer solve_distmm(const plan::SharingProblem& problem);
/// Microbatches of a pipeline of levels; as fast as the whole batch in proportion.
inline constexpr std::int64_t kPipedMicrobatches = 16;
/// The same, or several levels at once on devices of their own: microbatches go through them in a
/// pipeline, all forwards before all backwards. Its divisions of the devices start from the least
/// time of the slowest module, so that it is no proof.
[[nodiscard]] SharingAnswer solve_distmm_pipe(const plan::SharingProblem& problem);
/// Modules of a level in waves: the continuous division in which all end together, rounded to whole
/// devices, cut where the first of them ends, or where the layers end that it has on as many
/// devices (bi-point rounding: some on the number below, the others on the one above), if that is
/// shorter.
[[nodiscard]] SharingAnswer solve_spindle(const plan::SharingProblem& problem);
/// The greedy merging of stages with shares of devices.
[[nodiscard]] SharingAnswer solve_mosaic(const plan::SharingProblem& problem);
/// The same merging as if modules on one device cost each other nothing; its stages take what they
/// do cost.
[[nodiscard]] SharingAnswer solve_mosaic_unaware(const plan::SharingProblem& problem);

}  // namespace tributary::studies
