#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

#include "app/doctor/machine_facts.h"
#include "core/error.h"
#include "core/machine/cores.h"
#include "core/machine/memory_limits.h"
#include "core/machine/proc_value.h"

namespace tributary::app {
namespace {

namespace fs = std::filesystem;

std::uint64_t memory_bytes(const std::string& key) {
  return 1024 * std::strtoull(proc_value("/proc/meminfo", key).c_str(), nullptr, 10);
}

std::uint64_t free_bytes(const std::string& folder) {
  std::error_code failure;
  const fs::space_info space = fs::space(folder, failure);
  return failure ? 0 : space.available;
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

bool has_nvidia_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

void examine_cpu(MachineFacts& facts) {
  utsname name{};
  uname(&name);
  facts.system = str(name.sysname, " ", name.release, " ", name.machine);
  facts.cpu = proc_value("/proc/cpuinfo", "model name");
  const std::string flags = " " + proc_value("/proc/cpuinfo", "flags") + " ";
  facts.cpu_has_bf16 = flags.find(" avx512_bf16 ") != std::string::npos ||
                       flags.find(" amx_bf16 ") != std::string::npos;
  facts.cores = static_cast<int>(std::thread::hardware_concurrency());
  facts.usable_cores = static_cast<int>(usable_cores().size());
  (void)getloadavg(&facts.load, 1);
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) facts.omp_num_threads = threads;
}

void examine_room(MachineFacts& facts) {
  for (const MemoryLimit& limit : list_memory_limits()) {
    const auto left = static_cast<std::uint64_t>(limit.left.count);
    const bool is_first = facts.usable_memory_bytes == 0 && facts.tightest_memory.empty();
    if (!is_first && left >= facts.usable_memory_bytes) continue;
    facts.usable_memory_bytes = left;
    if (!is_first) facts.tightest_memory = limit.name;
  }
  facts.memory_bytes = memory_bytes("MemTotal");
  facts.free_memory_bytes = memory_bytes("MemAvailable");
  facts.folder = fs::current_path();
  facts.folder_is_writable = access(".", W_OK) == 0;
  facts.free_disk_bytes = free_bytes(".");
  facts.free_shared_memory_bytes = free_bytes("/dev/shm");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  facts.open_files = files.rlim_cur;
  facts.max_open_files = files.rlim_max;
}

}  // namespace

MachineFacts examine_machine() {
  MachineFacts facts;
  facts.build = {.version = "0.1.0",
                 .commit = TRIB_COMMIT,
                 .preset = TRIB_PRESET,
                 .compiler = "g++ " __VERSION__,
                 .libraries = TRIB_LIBRARIES,
                 .has_cuda_engine = has_cuda_engine()};
  examine_cpu(facts);
  examine_room(facts);
  facts.has_nvidia_driver = has_nvidia_driver();
  facts.has_tensorboard = is_on_path("tensorboard");
  const bool asks_cuda = facts.has_nvidia_driver && facts.build.has_cuda_engine;
  try {
    facts.engine = load_engine(asks_cuda ? EngineKind::kCuda : EngineKind::kCpu).facts();
  } catch (const Error& error) {
    facts.engine_failure = error.what();
  }
  return facts;
}

}  // namespace tributary::app
