#include <dlfcn.h>
#include <filesystem>

#include "app/engine/engine.h"
#include "core/error.h"

namespace tributary::app {
namespace {

std::string engine_path() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path() / "libtributary_engine.so";
}

}  // namespace

const Engine& load_engine() {
  static const Engine* engine = [] {
    const std::string path = engine_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      TRIB_RAISE(Fault::kResource, .what = "app: the engine library does not load", .where = path,
                 .found = dlerror(), .fix = "run `make build`, then `tributary doctor`");
    using Give = const Engine* (*)();
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym gives
    const auto give = reinterpret_cast<Give>(dlsym(library, "tributary_engine"));
    TRIB_CHECK(give != nullptr, .what = "app: the engine library lacks its table", .where = path);
    return give();
  }();
  return *engine;
}

}  // namespace tributary::app
