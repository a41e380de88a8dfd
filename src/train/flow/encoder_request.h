#pragma once

#include "config/run/run_config.h"
#include "mesh/mesh.h"
#include "schedule/encoder_allocator.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// What rank 0 asks its launcher for: as many encoders beside the run as the rates of its steps
/// want.
class EncoderRequest {
 public:
  /// Asks for pool.encoders, those that the run starts with.
  ///
  /// errors: Fault::kInput where no launcher listens
  EncoderRequest(const config::RunConfig& config, const mesh::Mesh& backbone);

  /// Asks for others after a step, if need be; says in its metrics how many are wanted, and why.
  void after_step(StepMetrics& metrics);

 private:
  void ask(std::int64_t encoders) const;

  schedule::EncoderAllocator policy_;
  int descriptor_ = -1;  // of the process, in all stages of a run
};

}  // namespace tributary::train
