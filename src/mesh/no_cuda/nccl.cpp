#include "core/error.h"
#include "mesh/transport/transports.h"

namespace tributary::mesh {

std::unique_ptr<Transport> make_nccl(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                     const TransportOptions& options, int /*device*/) {
  TRIB_RAISE(Fault::kResource, .what = "mesh: this engine is built without NCCL",
             .where = options.name, .fix = "build the preset `cuda`, or set run.device to cpu");
}

}  // namespace tributary::mesh
