#include "mesh/cores.h"

#include <cerrno>
#include <sched.h>
#include <system_error>

#include "core/error.h"

namespace tributary::mesh {
namespace {

std::vector<int> read_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};  // more cores than a set holds
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
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
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  TRIB_RAISE(Fault::kResource, .what = "mesh: a rank cannot be bound to cores", .where = "run.bind",
             .found = std::generic_category().message(errno), .fix = "set run.bind to none");
}

std::vector<int> bound_cores() {
  std::vector<int> cores = read_cores();
  return cores == usable_cores() ? std::vector<int>{} : cores;
}

}  // namespace tributary::mesh
