#pragma once

#include "schedule/pipeline/pipeline.h"

namespace tributary::schedule {

/// Lets the lanes of a colocated module and of the backbone take turns on their ranks, by TS and TR
/// in both lists. The colocated module begins.
///
/// Its lists are made anew: each pass goes where the ranks of the stage would wait longest for the
/// pipeline, by nominal times, between the earliest moment at which a backward has its gradients
/// and the latest at which the backbone's first stage needs the features. Where nothing waits, a
/// pass is one group of microbatches ahead of those that need it, or behind those that gave its
/// gradients, so that other work hides its messages.
///
/// No lane waits for ever: the nominal times order all passes.
///
/// errors: Fault::kBug when the lists have turns already
/// source: docs/theory/parallelism.md, "Passes of a colocated encoder"
void take_turns(const PipelineMap& map, Schedule& schedule);

}  // namespace tributary::schedule
