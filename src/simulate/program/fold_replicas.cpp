#include "simulate/program/fold_replicas.h"

namespace tributary::simulate {

FoldedPipeline fold_replicas(const schedule::Pipeline& pipeline, bool all_equal) {
  FoldedPipeline folded{.pipeline = pipeline, .folding = {}};
  for (schedule::PipelineModule& module : folded.pipeline.modules) {
    folded.folding.stands_for.push_back(all_equal ? module.replicas : 1);
    if (all_equal) module.replicas = 1;
  }
  return folded;
}

}  // namespace tributary::simulate
