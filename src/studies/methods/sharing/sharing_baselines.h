#pragma once

#include <optional>
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

/// The fraction of the devices' units with work over a step, 0 to 1.
struct Occupancy {
  double mean = 0;  // of all devices
  double min = 0;   // min over devices
};

/// A module adds its fraction of a device's units times its time there, as far as kernels run in
/// it. Waiting for the host, a reduction or the slowest device counts 0, and so does an unused
/// device. All devices of a module count with their mean. Null where there is no plan, or the
/// problem does not say how busy its modules keep devices.
///
/// source: Mosaic's figure 10 measures compute warps in flight; this measures how long there are
///         any, not how many
[[nodiscard]] std::optional<Occupancy> occupancy_of(const plan::SharingProblem& problem,
                                                    const SharingAnswer& answer);

/// The modules by depth in the graph: modules of a level do not depend on each other.
[[nodiscard]] std::vector<std::vector<std::int32_t>> levels_of(const plan::SharingProblem& problem);

/// The fastest way to run whole modules side by side on their own devices; there must be no more of
/// them than `count_side_by_side` says.
[[nodiscard]] BaselineWave place_side_by_side(const plan::SharingProblem& problem,
                                              std::span<const std::int32_t> modules,
                                              std::int64_t& evaluations);

/// Divides a level into the fewest such waves that fit, the largest modules first.
[[nodiscard]] std::vector<BaselineWave> place_level(const plan::SharingProblem& problem,
                                                    std::vector<std::int32_t> level,
                                                    std::int64_t& evaluations);

}  // namespace tributary::studies
