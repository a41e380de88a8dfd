#include "memory/transport/cuda/driver.h"

#include <dlfcn.h>

#include "core/text.h"

namespace tributary::memory {
namespace {

Result<Driver> find_functions() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Refusal{"device", str("memory: no CUDA driver is found: ", dlerror())};
  Driver driver;
#define TRIB_QUOTE(name) #name
#define TRIB_FIND(name)                                                                    \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, TRIB_QUOTE(name))); \
  if (driver.name == nullptr)                                                              \
    return Refusal{"device", str("memory: the CUDA driver lacks ", TRIB_QUOTE(name),       \
                                 "; install a newer one")};
  TRIB_DRIVER_FUNCTIONS(TRIB_FIND)
#undef TRIB_FIND
#undef TRIB_QUOTE
  if (const CUresult begun = driver.cuInit(0); begun != CUDA_SUCCESS)
    return refuse_call(driver, "cuInit", begun);
  return driver;
}

}  // namespace

Result<const Driver*> load_driver() {
  static const Result<Driver> driver = find_functions();
  if (!driver) return driver.refusal();
  return &driver.value();
}

Refusal refuse_call(const Driver& driver, const char* call, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "an unknown error";
  return {"device", str("memory: ", call, " ended with ", name)};
}

}  // namespace tributary::memory
