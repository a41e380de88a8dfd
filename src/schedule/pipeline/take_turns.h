#pragma once

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// Lets lanes on the same ranks take turns, by TS and TR in their lists: those of colocated modules
/// with each other, and with the backbone where they say so (PipelineMap::alternate). The modules
/// begin in the order of PipelineMap::sharers.
///
/// A module that is not to take turns with the backbone runs all forwards before the other lanes,
/// and all backwards after them. The lists of the others are made anew: each pass goes where the
/// ranks of the stage would wait longest for the pipeline, by nominal times, between the earliest
/// moment at which a backward has its gradients and the latest at which the backbone's first stage
/// needs the features. Where nothing waits, a pass is one group of microbatches ahead of those that
/// need it, or behind those that gave its gradients, so that other work hides its messages.
///
/// Passes of a module ahead go where the ranks of a stage would wait longest in the whole step, and
/// those for which no gap is left behind all of the backbone.
///
/// No lane waits for ever: the nominal times order all passes.
///
/// errors: Fault::kBug when the lists have turns already
/// source: docs/theory/parallelism.md, "Passes of a colocated encoder"
void take_turns(const PipelineMap& map, Schedule& schedule);

}  // namespace tributary::schedule
