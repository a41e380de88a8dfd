#include "app/engine/engine.h"

#include <torch/torch.h>

#include "app/engine/engine_verbs.h"
#include "core/error.h"
#include "mesh/device.h"

namespace tributary::app {
namespace {

/// Runs a verb; what libtorch throws becomes an Error of one line, without its stack trace.
template <class Options, ExitCode (*kVerb)(const Options&)>
ExitCode guarded(const Options& options) {
  try {
    return kVerb(options);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const bool memory = text.find("llocate") != std::string::npos;
    if (memory)
      TRIB_RAISE(Fault::kResource, .what = "app: out of memory", .found = escaped(text),
                 .fix = "lower batch.capacity_tokens, or set model.recompute");
    TRIB_RAISE(Fault::kBug, .what = "app: libtorch refused a call", .found = escaped(text));
  }
}

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
  static const Engine engine{.train = guarded<TrainOptions, run_train>,
                             .forward = guarded<ForwardOptions, run_forward>,
                             .generate = guarded<GenerateOptions, run_generate>,
                             .inspect_checkpoint = inspect_checkpoint,
                             .verify_checkpoint = verify_checkpoint,
                             .export_checkpoint = export_checkpoint,
                             .facts = collect_facts};
  return &engine;
}
