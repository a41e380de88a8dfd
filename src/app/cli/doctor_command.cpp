#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "app/cli/commands.h"
#include "app/engine/engine.h"
#include "core/error.h"

namespace tributary::app {
namespace {

bool has_nvidia_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return false;
  dlclose(driver);
  return true;
}

/// A value of /proc/meminfo in GiB; 0 when it is not there.
double read_memory_gib(const std::string& key) {
  std::ifstream lines("/proc/meminfo");
  std::string name;
  double kib = 0;
  for (std::string unit; lines >> name >> kib; std::getline(lines, unit))
    if (name == key + ":") return kib / (1 << 20);
  return 0;
}

void print(const std::string& topic, const std::string& found) {
  std::cout << topic << std::string(topic.size() < 12 ? 12 - topic.size() : 1, ' ') << found
            << "\n";
}

void print_machine() {
  print("cores", str(std::thread::hardware_concurrency()));
  print("memory",
        str(read_memory_gib("MemAvailable"), " GiB free of ", read_memory_gib("MemTotal"), " GiB"));
  const auto disk = std::filesystem::space(".");
  print("disk", str(disk.available >> 30, " GiB free here"));
}

/// The CUDA engine is asked only where a driver is, so that a CPU machine never loads it.
EngineKind choose_engine(bool driver) {
  return driver && has_cuda_engine() ? EngineKind::kCuda : EngineKind::kCpu;
}

std::string describe_devices(const EngineFacts& facts, bool driver) {
  if (!facts.devices.empty()) {
    std::string all;
    for (const std::string& device : facts.devices) all += (all.empty() ? "" : "; ") + device;
    return all + " (" + facts.device_state + ")";
  }
  if (!has_cuda_engine()) return "cpu; " + facts.device_state;
  if (!driver) return "cpu; the CUDA engine is built, no device is present: no NVIDIA driver";
  return "cpu; " + facts.device_state;
}

ExitCode run_doctor() {
  print("tributary", "0.1.0, g++ " __VERSION__);
  print_machine();
  const bool driver = has_nvidia_driver();
  const EngineFacts facts = load_engine(choose_engine(driver)).facts();
  print("libtorch", facts.torch_version);
  print("threads", str(facts.threads, " for computing (run.threads)"));
  print("devices", describe_devices(facts, driver));
  std::cout << facts.parallel_info;
  std::cout << "\nwhat would not work here\n";
  if (facts.devices.empty())
    std::cout
        << "  run.device: cuda      no device is present\n"
        << "  model.dtype: bfloat16 only on a CUDA device: matrix products of bf16 are slow on "
           "a CPU\n";
  else
    std::cout << "  nothing known\n";
  return ExitCode::kDone;
}

}  // namespace

Run declare_doctor(Verb& verb) {
  verb.example("tributary doctor");
  return run_doctor;
}

}  // namespace tributary::app
