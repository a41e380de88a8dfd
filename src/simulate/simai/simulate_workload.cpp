#include "simulate/simai/simulate_workload.h"

#include "simulate/simai/workload_costs.h"
#include "simulate/trace_of.h"

namespace tributary::simulate {

Simulation simulate_workload(const SimaiWorkload& workload, const config::Cluster& cluster,
                             SimulationOptions options) {
  const config::Plan plan = plan_of(workload);
  const WorkloadCosts costs(workload, plan, cluster);
  options.samples = {.kind = SampleSource::Kind::kGiven, .given = {costs.shapes()}};
  return simulate(plan, costs, cluster, options);
}

config::Trace trace_of_workload(const Simulation& simulation, const SimaiWorkload& workload,
                                const std::string& cluster) {
  config::Trace trace = trace_of(simulation, workload.path, cluster);
  trace.summary.unknown.assign(config::kTraceUnknowns.begin(), config::kTraceUnknowns.end());
  trace.summary.mfu_formula.clear();
  trace.summary.utilisation.clear();
  for (config::TraceLane& lane : trace.lanes) {
    lane.peak_parts.clear();
    lane.memory.clear();
  }
  return trace;
}

}  // namespace tributary::simulate
