#pragma once

#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// Fills in when reductions and the step run, by when the lanes reach them: neither changes when a
/// pass runs, unless passes slow down beside reductions. Then the makespan; where a lane is blocked
/// the step does not run, and the lanes that have come to it are blocked too.
void hold_meetings(const StepProgram& program, const StepLoad& load, StepTimes& times);

}  // namespace tributary::simulate
