#include "train/metrics/environment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <unistd.h>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include "core/machine/cores.h"
#include "core/machine/proc_value.h"
#include "core/text.h"
#include "train/balance/flops.h"
#include "train/metrics/stream_clock.h"

namespace tributary::train {
namespace {

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string system_name() {
  utsname name{};
  uname(&name);
  return str(name.sysname, " ", name.release, " ", name.machine);
}

constexpr std::array<std::string_view, 18> kBehaviourPrefixes{
    "ATEN_", "CUBLAS_",    "CUDA_",    "CUDNN_",  "GLIBC_TUNABLES", "GOMP_",
    "KMP_",  "LD_PRELOAD", "MKL_",     "MALLOC_", "NCCL_",          "NVIDIA_",
    "OMP_",  "OPENBLAS_",  "PYTORCH_", "TORCH_",  "TRIB_",          "UCX_"};

}  // namespace

std::map<std::string, std::string> list_behaviour_variables() {
  std::map<std::string, std::string> set;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool counts = std::ranges::any_of(
        kBehaviourPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (counts && name.size() < text.size()) set.emplace(name, text.substr(name.size() + 1));
  }
  return set;
}

std::string describe_cpu() { return proc_value("/proc/cpuinfo", "model name"); }

Json describe_environment(const std::string& device, const std::string& command) {
  const std::int64_t memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return {{"tributary", "0.1.0"},
          {"commit", TRIB_COMMIT},
          {"torch", TORCH_VERSION},
          {"parallel", at::get_parallel_info()},
          {"compiler", str("g++ ", __VERSION__)},
          {"device", device},
          {"threads", at::get_num_threads()},
          {"deterministic", at::globalContext().deterministicAlgorithms()},
          {"cpu", describe_cpu()},
          {"cores", usable_cores().size()},
          {"bound_to", bound_cores()},
          {"memory_bytes", memory},
          {"system", system_name()},
          {"started_at", now_utc()},
          {"command", command},
          {"variables", list_behaviour_variables()},
          {"mfu_formula", describe_mfu()}};
}

PeakFlops measure_peak_flops(c10::Device device, c10::ScalarType dtype) {
  const std::int64_t side = device.is_cpu() ? 1024 : 8192;
  constexpr int kRepeats = 8;
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  const at::Tensor left = at::rand({side, side}, options);
  const at::Tensor right = at::rand({side, side}, options);
  at::Tensor product = at::mm(left, right);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    StreamClock clock(device);
    clock.mark();
    at::mm_out(product, left, right);
    clock.mark();
    const std::vector<double> times = clock.times();
    best = std::min(best, times.back() - times.front());
  }
  return {.per_second = 2.0 * std::pow(static_cast<double>(side), 3) / best,
          .how = str("fastest of ", kRepeats, " ", c10::toString(dtype), " products of ", side,
                     " x ", side, " matrices on ", device.str())};
}

}  // namespace tributary::train
