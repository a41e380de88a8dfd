#include "simulate/program/fold_replicas.h"

#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::simulate {

FoldedPipeline fold_replicas(const schedule::Pipeline& pipeline, bool all_equal) {
  FoldedPipeline folded{.pipeline = pipeline, .folding = {}};
  const int stages = pipeline.modules[schedule::backbone_of(pipeline)].stages;
  for (schedule::PipelineModule& module : folded.pipeline.modules) {
    const int left = !all_equal                                   ? module.replicas
                     : module.takes_turns && !module.beside_first ? stages
                                                                  : 1;
    folded.folding.stands_for.push_back(module.replicas / left);
    module.replicas = left;
  }
  return folded;
}

}  // namespace tributary::simulate
