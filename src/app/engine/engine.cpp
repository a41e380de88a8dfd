#include "app/engine/engine.h"

#include <torch/torch.h>

#include "app/engine/engine_verbs.h"
#include "mesh/device.h"

namespace tributary::app {
namespace {

EngineFacts collect_facts() {
  const mesh::Devices devices = mesh::list_devices();
  return {.torch_version = TORCH_VERSION,
          .parallel_info = at::get_parallel_info(),
          .threads = at::get_num_threads(),
          .devices = devices.accelerators,
          .device_state = devices.state};
}

}  // namespace
}  // namespace tributary::app

/// The one symbol that the executable looks for.
extern "C" const tributary::app::Engine* tributary_engine() {
  using namespace tributary::app;
  static const Engine engine{.train = run_train,
                             .forward = run_forward,
                             .generate = nullptr,
                             .inspect_checkpoint = inspect_checkpoint,
                             .verify_checkpoint = verify_checkpoint,
                             .export_checkpoint = export_checkpoint,
                             .facts = collect_facts};
  return &engine;
}
