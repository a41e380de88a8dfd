#include "plan/sharing/sharing_problem.h"

#include <bit>
#include <cmath>

#include "core/error.h"

namespace tributary::plan {
namespace {

/// `busy` has no values or one for each time, all from 0 to 1.
void check_busy(const SharedModule& module) {
  const bool is_known = !module.busy.empty() || !module.whole_busy.empty();
  TRIB_REQUIRE(
      !is_known || (module.busy.size() == module.times.size() &&
                    module.whole_busy.size() == module.whole.size()),
      .what = "plan: busy parts of times of another size", .where = module.name,
      .found = str(module.busy.size(), " and ", module.whole_busy.size(), " of whole ones"),
      .expected = str(module.times.size(), " and ", module.whole.size(), ", or none"));
  for (const std::vector<double>* table : {&module.busy, &module.whole_busy}) {
    for (const double part : *table) {
      TRIB_REQUIRE(part >= 0 && part <= 1, .what = "plan: value cannot be used",
                   .where = module.name + ".busy", .found = str(part), .expected = "0 to 1");
    }
  }
}

void check_module(const SharingProblem& problem, std::size_t index) {
  const SharedModule& module = problem.modules[index];
  const auto places = static_cast<std::size_t>(problem.widths() * problem.units);
  TRIB_REQUIRE(module.times.size() == places, .what = "plan: table of times of another size",
               .where = module.name, .found = str(module.times.size(), " times"),
               .expected = str(problem.widths(), " widths of ", problem.units, " units"));
  for (const Nanoseconds time : module.times) {
    TRIB_REQUIRE(time.count >= 1 && time.count < (std::int64_t{1} << 50),
                 .what = "plan: value cannot be used", .where = module.name, .found = str(time),
                 .expected = "1 to 2^50 ns");
  }
  const bool has_bandwidth = problem.interference.form != Interference::Form::kNone;
  TRIB_REQUIRE(
      std::ssize(module.bandwidth) == problem.units || module.bandwidth.size() == places ||
          (!has_bandwidth && module.bandwidth.empty()),
      .what = "plan: bandwidths of another size", .where = module.name,
      .found = str(module.bandwidth.size()),
      .expected = str(problem.units, ", or that for each of ", problem.widths(), " widths"));
  for (const double share : module.bandwidth) {
    TRIB_REQUIRE(share >= 0 && share <= 1, .what = "plan: value cannot be used",
                 .where = module.name + ".bandwidth", .found = str(share), .expected = "0 to 1");
  }
  TRIB_REQUIRE(module.whole.empty() || std::ssize(module.whole) == problem.devices,
               .what = "plan: times on whole devices of another size", .where = module.name,
               .found = str(module.whole.size()), .expected = str(problem.devices));
  check_busy(module);
  TRIB_REQUIRE(module.memory.empty() || std::ssize(module.memory) == problem.widths(),
               .what = "plan: memory of another size", .where = module.name,
               .found = str(module.memory.size()), .expected = str(problem.widths()));
  TRIB_REQUIRE(module.resident.empty() || module.resident.size() == module.memory.size(),
               .what = "plan: resident memory of another size", .where = module.name,
               .found = str(module.resident.size()), .expected = str(module.memory.size()));
  for (const std::int32_t before : module.after) {
    TRIB_REQUIRE(before >= 0 && before < static_cast<std::int32_t>(index),
                 .what = "plan: module does not follow what it depends on", .where = module.name,
                 .found = str("module ", before), .expected = str("0 to ", index) + " (excluded)");
  }
}

}  // namespace

std::int64_t SharingProblem::widths() const {
  return std::bit_width(static_cast<std::uint64_t>(devices));
}

void check_problem(const SharingProblem& problem) {
  const auto check_range = [](std::int64_t value, std::int64_t max, const char* where) {
    TRIB_REQUIRE(value >= 1 && value <= max, .what = "plan: value cannot be used", .where = where,
                 .found = str(value), .expected = str("1 to ", max));
  };
  check_range(problem.devices, kMaxSharingDevices, "devices");
  check_range(problem.units, max_share_units(problem.devices), "units");
  check_range(std::ssize(problem.modules), kMaxSharedModules, "modules");
  for (const double factor :
       {problem.interference.base, problem.interference.sum, problem.interference.pair}) {
    TRIB_REQUIRE(std::isfinite(factor) && factor >= 0, .what = "plan: value cannot be used",
                 .where = "interference", .found = str(factor), .expected = "0 or above");
  }
  for (std::size_t index = 0; index < problem.modules.size(); ++index) {
    check_module(problem, index);
  }
}

std::vector<ModuleSet> ancestors_of(const SharingProblem& problem) {
  std::vector<ModuleSet> ancestors;
  for (const SharedModule& module : problem.modules) {
    ModuleSet all = 0;
    for (const std::int32_t before : module.after) {
      all |= ancestors[before] | (ModuleSet{1} << before);
    }
    ancestors.push_back(all);
  }
  return ancestors;
}

std::optional<std::vector<ModuleSet>> order_stages(const std::vector<ModuleSet>& ancestors,
                                                   std::vector<ModuleSet> stages) {
  const auto needs = [&](ModuleSet stage) {
    ModuleSet all = 0;
    for (ModuleSet rest = stage; rest != 0; rest &= rest - 1) {
      all |= ancestors[std::countr_zero(rest)];
    }
    return all;
  };
  std::vector<ModuleSet> ordered;
  ModuleSet done = 0;
  while (!stages.empty()) {
    std::size_t next = 0;
    while (next < stages.size() && (needs(stages[next]) & ~done) != 0) ++next;
    if (next == stages.size()) return std::nullopt;
    ordered.push_back(stages[next]);
    done |= stages[next];
    stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return ordered;
}

}  // namespace tributary::plan
