#pragma once

#include <cuda.h>

#include "core/result.h"

namespace tributary::memory {

// The functions that are used, under the names that the header gives their versions.
#define TRIB_DRIVER_FUNCTIONS(each)                                                                \
  each(cuInit) each(cuGetErrorName) each(cuDeviceGetCount) each(cuDeviceGet) each(cuDeviceGetUuid) \
      each(cuDeviceGetAttribute) each(cuDeviceCanAccessPeer) each(cuDevicePrimaryCtxRetain)        \
          each(cuDevicePrimaryCtxRelease) each(cuCtxSetCurrent)                                    \
              each(cuMemGetAllocationGranularity) each(cuMemAddressReserve) each(cuMemAddressFree) \
                  each(cuMemCreate) each(cuMemRelease) each(cuMemMap) each(cuMemUnmap)             \
                      each(cuMemSetAccess) each(cuMemExportToShareableHandle)                      \
                          each(cuMemImportFromShareableHandle) each(cuMemPoolCreate)               \
                              each(cuMemPoolDestroy) each(cuMemPoolSetAttribute)                   \
                                  each(cuMemAllocFromPoolAsync) each(cuMemFreeAsync)               \
                                      each(cuMemcpyAsync) each(cuStreamCreate)                     \
                                          each(cuStreamDestroy) each(cuStreamSynchronize)

/// The driver of this machine. It is loaded and not linked, so that a build runs without one.
struct Driver {
#define TRIB_DECLARE(name) decltype(&::name) name = nullptr;
  TRIB_DRIVER_FUNCTIONS(TRIB_DECLARE)
#undef TRIB_DECLARE
};

/// errors: Refusal (`device`) when there is none, it is too old, or it finds no device
[[nodiscard]] Result<const Driver*> load_driver();

/// A refusal that names the call and how it ended.
[[nodiscard]] Refusal refuse_call(const Driver& driver, const char* call, CUresult result);

}  // namespace tributary::memory
