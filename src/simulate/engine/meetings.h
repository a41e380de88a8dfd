#pragma once

#include "simulate/engine/step_times.h"

namespace tributary::simulate {

/// Sets when reductions and the step run, from when the lanes reach them, and then the makespan.
/// Neither changes when a pass runs, unless passes slow down beside reductions. Where a lane is
/// blocked the step does not run, and lanes that have reached it are blocked too.
void hold_meetings(const StepProgram& program, const StepLoad& load, StepTimes& times);

}  // namespace tributary::simulate
