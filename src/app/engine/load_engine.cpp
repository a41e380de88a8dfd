#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

#include "app/engine/engine.h"
#include "core/error.h"

namespace tributary::app {
namespace {

std::filesystem::path engine_path(EngineKind kind) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path() /
         (kind == EngineKind::kCuda ? "libtributary_engine_cuda.so" : "libtributary_engine.so");
}

/// Makes waiting threads spin for some 20 us before they sleep, unless the user says otherwise. By
/// default libgomp spins a hundred times longer on cores that other programs want: steps beside two
/// busy processes took several times as long. Without any spinning a quiet machine loses a third of
/// its speed. libgomp reads the variable when it is loaded.
void limit_spinning() {
  const bool is_chosen =
      std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  if (!is_chosen) setenv("GOMP_SPINCOUNT", "10000", 0);
}

const Engine* open_engine(EngineKind kind) {
  limit_spinning();
  const std::string path = engine_path(kind);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    TRIB_RAISE(Fault::kResource, .what = "app: the engine library does not load", .where = path,
               .found = dlerror(),
               .fix = kind == EngineKind::kCuda
                          ? "build it with `make cuda`, or set run.device to cpu"
                          : "run `make build`, then `tributary doctor`");
  using Give = const Engine* (*)();
  const auto give = reinterpret_cast<Give>(dlsym(library, "tributary_engine"));
  TRIB_CHECK(give != nullptr, .what = "app: the engine library lacks its table", .where = path);
  return give();
}

}  // namespace

EngineKind engine_for(const std::string& device) {
  return device.starts_with("cuda") ? EngineKind::kCuda : EngineKind::kCpu;
}

AdaptedRun with_adapters(const config::RunConfig& run) {
  if (!run.model.asks_for_adapters()) return {.run = run};
  return load_engine().resolve_adapters(run);
}

bool has_cuda_engine() { return std::filesystem::exists(engine_path(EngineKind::kCuda)); }

const Engine& load_engine(EngineKind kind) {
  static const EngineKind first = kind;
  static const Engine* engine = open_engine(first);
  TRIB_CHECK(kind == first, .what = "app: two engines in one process");
  return *engine;
}

}  // namespace tributary::app
