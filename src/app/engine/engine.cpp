#include "app/engine/engine.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "app/engine/engine_verbs.h"
#include "mesh/device.h"
#include "train/start/guarded.h"

namespace tributary::app {
namespace {

EngineFacts collect_facts() {
  mesh::Devices devices = mesh::list_devices();
  for (int index = 0; std::string & device : devices.accelerators)
    if (!mesh::use_device(index++)) device += ", OUR KERNELS DO NOT RUN ON IT";
  return {.torch_version = TORCH_VERSION,
          .parallel_info = at::get_parallel_info(),
          .threads = at::get_num_threads(),
          .devices = devices.accelerators,
          .device_state = devices.state};
}

/// Guarded<kVerb>::call runs kVerb guarded; the engine's table holds these.
template <auto kVerb>
struct Guarded;
template <class Result, class... Arguments, Result (*kVerb)(Arguments...)>
struct Guarded<kVerb> {
  static Result call(Arguments... arguments) {
    return train::guarded([&] { return kVerb(arguments...); });
  }
};

}  // namespace
}  // namespace tributary::app

/// The only symbol that the executable looks up.
extern "C" const tributary::app::Engine* tributary_engine() {
  using namespace tributary::app;
  static const Engine engine{.train = Guarded<run_train>::call,
                             .encoder = Guarded<run_encoder>::call,
                             .forward = Guarded<run_forward>::call,
                             .evaluate = Guarded<run_evaluate>::call,
                             .open_chat_model = Guarded<open_chat_model>::call,
                             .profile = Guarded<run_profile>::call,
                             .inspect_checkpoint = Guarded<inspect_checkpoint>::call,
                             .verify_checkpoint = Guarded<verify_checkpoint>::call,
                             .export_checkpoint = Guarded<export_checkpoint>::call,
                             .resolve_adapters = Guarded<resolve_adapters>::call,
                             .facts = Guarded<collect_facts>::call};
  return &engine;
}
