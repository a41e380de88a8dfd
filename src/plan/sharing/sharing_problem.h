#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.h"
#include "plan/sharing/interference.h"

namespace tributary::plan {

/// A module that may run on 1, 2, 4, ... devices at once, on each with some of its share units.
struct SharedModule {
  std::string name = {};
  std::vector<std::int32_t> after = {};  // modules that end before this one starts
  std::vector<Nanoseconds> times = {};   // [widths, units]: on 2^w devices, u + 1 units each
  std::vector<Nanoseconds> whole = {};   // [devices] on 1, 2, 3, ... whole ones; empty: unknown
  // The mean fraction of `times` and of `whole` in which kernels run on its devices; the rest waits
  // for the host, a reduction or the slowest device. Given for both or for neither; empty: unknown.
  std::vector<double> busy = {};
  std::vector<double> whole_busy = {};
  std::int64_t layers = 0;  // it may be divided between them; 0: at any point
  // Fraction of a device's memory bandwidth, 0 to 1: [units] for any width, or [widths, units].
  std::vector<double> bandwidth = {};
  std::vector<Bytes> memory = {};    // [widths] on each device while it runs; empty: none
  std::vector<Bytes> resident = {};  // [widths] the part that stays there in other stages too
};

/// Modules on devices whose compute units are cut into equal share units.
struct SharingProblem {
  std::vector<SharedModule> modules;  // each after those it depends on
  std::int64_t devices = 1;
  std::int64_t units = 10;           // share units of a device
  std::optional<Bytes> memory = {};  // of a device; null: no limit
  Interference interference = {};

  /// How many numbers of devices a module may take: 2^0 to 2^(widths - 1).
  [[nodiscard]] std::int64_t widths() const;
  [[nodiscard]] Nanoseconds time(std::int64_t module, std::int64_t width,
                                 std::int64_t share) const {
    return modules[module].times[width * units + share - 1];
  }
  /// As `time`, for the busy fraction, where it is known.
  [[nodiscard]] double busy(std::int64_t module, std::int64_t width, std::int64_t share) const {
    return modules[module].busy[width * units + share - 1];
  }
  [[nodiscard]] double bandwidth(std::int64_t module, std::int64_t width,
                                 std::int64_t share) const {
    const std::vector<double>& known = modules[module].bandwidth;
    if (known.empty()) return 0;
    return known[std::ssize(known) == units ? share - 1 : width * units + share - 1];
  }
};

/// A set of modules of a problem, as bits.
using ModuleSet = std::uint32_t;

/// A module of a stage on an aligned block of devices.
struct PlacedModule {
  std::int32_t module = 0;
  std::int64_t first_device = 0;
  std::int64_t devices = 1;
  std::int64_t share = 1;  // units on each device
  Nanoseconds time = {};   // slowed by the others

  friend bool operator==(const PlacedModule&, const PlacedModule&) = default;
};

inline constexpr std::int64_t kMaxSharedModules = 20;
inline constexpr std::int64_t kMaxSharingDevices = 64;
inline constexpr std::int64_t kMaxShareUnits = 100;
inline constexpr std::int64_t kMaxCoarseUnits = 16;
/// Max number of parts of each of `devices` devices: small parts are for at most 16 devices.
[[nodiscard]] constexpr std::int64_t max_share_units(std::int64_t devices) {
  return devices > 16 ? kMaxCoarseUnits : kMaxShareUnits;
}

/// errors: Fault::kInput naming module and value: a number out of range, a table of another size, a
///         module after itself or a later one
void check_problem(const SharingProblem& problem);

/// The modules that must end before each module starts, directly or through others.
[[nodiscard]] std::vector<ModuleSet> ancestors_of(const SharingProblem& problem);

/// Orders the stages so that each follows all that its modules depend on, the first possible one
/// first; null when stages depend on each other in a circle, or a stage on itself.
[[nodiscard]] std::optional<std::vector<ModuleSet>> order_stages(
    const std::vector<ModuleSet>& ancestors, std::vector<ModuleSet> stages);

}  // namespace tributary::plan
