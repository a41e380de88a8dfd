#include "mesh/cores.h"

#include <array>
#include <cerrno>
#include <sched.h>
#include <system_error>

#include "core/error.h"

namespace tributary::mesh {
namespace {

constexpr int kMostCores = 16 * CPU_SETSIZE;
using CoreSet = std::array<cpu_set_t, kMostCores / CPU_SETSIZE>;

std::vector<int> read_cores() {
  CoreSet set{};
  if (sched_getaffinity(0, sizeof set, set.data()) != 0)
    TRIB_RAISE(Fault::kResource, .what = "mesh: the cores of this process cannot be told",
               .where = "sched_getaffinity", .found = std::generic_category().message(errno));
  std::vector<int> cores;
  for (int core = 0; core < kMostCores; ++core)
    if (CPU_ISSET_S(core, sizeof set, set.data())) cores.push_back(core);
  return cores;
}

}  // namespace

const std::vector<int>& usable_cores() {
  static const std::vector<int> cores = read_cores();
  return cores;
}

std::vector<int> cores_of_rank(const std::vector<int>& usable, int local_rank, int local_world) {
  const auto cores = static_cast<std::ptrdiff_t>(usable.size());
  if (local_world > cores) return {usable[static_cast<std::size_t>(local_rank % cores)]};
  return {usable.begin() + local_rank * cores / local_world,
          usable.begin() + (local_rank + 1) * cores / local_world};
}

void bind_to_cores(const std::vector<int>& cores) {
  (void)usable_cores();  // read before they change
  if (cores == read_cores()) return;
  CoreSet set{};
  for (const int core : cores) CPU_SET_S(core, sizeof set, set.data());
  if (sched_setaffinity(0, sizeof set, set.data()) == 0) return;
  TRIB_RAISE(Fault::kResource, .what = "mesh: a rank cannot be bound to cores", .where = "run.bind",
             .found = std::generic_category().message(errno), .fix = "set run.bind to none");
}

void unbind_from_cores() { bind_to_cores(usable_cores()); }

std::vector<int> bound_cores() {
  std::vector<int> cores = read_cores();
  return cores == usable_cores() ? std::vector<int>{} : cores;
}

}  // namespace tributary::mesh
