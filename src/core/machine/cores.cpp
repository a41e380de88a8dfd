#include "core/machine/cores.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sched.h>
#include <system_error>

#include "core/error.h"

namespace tributary {
namespace {

constexpr int kMaxCores = 16 * CPU_SETSIZE;
using CoreSet = std::array<cpu_set_t, kMaxCores / CPU_SETSIZE>;

std::vector<int> read_cores() {
  CoreSet set{};
  if (sched_getaffinity(0, sizeof set, set.data()) != 0)
    TRIB_RAISE(Fault::kResource, .what = "core: the cores of this process cannot be read",
               .where = "sched_getaffinity", .found = std::generic_category().message(errno));
  std::vector<int> cores;
  for (int core = 0; core < kMaxCores; ++core)
    if (CPU_ISSET_S(core, sizeof set, set.data())) cores.push_back(core);
  return cores;
}

}  // namespace

const std::vector<int>& usable_cores() {
  static const std::vector<int> cores = read_cores();
  return cores;
}

std::vector<int> part_of_cores(const std::vector<int>& usable, int part, int parts) {
  const auto cores = static_cast<std::ptrdiff_t>(usable.size());
  if (parts > cores) return {usable[static_cast<std::size_t>(part % cores)]};
  return {usable.begin() + part * cores / parts, usable.begin() + (part + 1) * cores / parts};
}

int compute_threads(int asked, std::int64_t processes) {
  if (asked > 0) return asked;
  const char* given = std::getenv("OMP_NUM_THREADS");
  if (const int threads = given == nullptr ? 0 : std::atoi(given); threads > 0) return threads;
  return static_cast<int>(std::max<std::int64_t>(1, std::ssize(usable_cores()) / processes));
}

void bind_to_cores(const std::vector<int>& cores) {
  (void)usable_cores();  // read before they change
  if (cores == read_cores()) return;
  CoreSet set{};
  for (const int core : cores) CPU_SET_S(core, sizeof set, set.data());
  if (sched_setaffinity(0, sizeof set, set.data()) == 0) return;
  TRIB_RAISE(Fault::kResource, .what = "core: a process cannot be bound to cores",
             .where = "run.bind", .found = std::generic_category().message(errno),
             .fix = "set run.bind to none");
}

void unbind_from_cores() { bind_to_cores(usable_cores()); }

std::vector<int> bound_cores() {
  std::vector<int> cores = read_cores();
  return cores == usable_cores() ? std::vector<int>{} : cores;
}

}  // namespace tributary
