#include "app/python/simulate_arguments.h"

#include <nlohmann/json.hpp>

#include "app/python/given_arguments.h"
#include "config/plan/artifact_object.h"

namespace tributary::app {
namespace {

constexpr double kAny = 1e300;  // ranges are checked where the numbers are used
constexpr config::WholeRange kWhole = {-(std::int64_t{1} << 53), std::int64_t{1} << 53};

void read_options(const Json& json, SimulateRequest& request) {
  config::Problems problems;
  config::ArtifactObject options(json, "simulate", "", problems);
  const auto number = [&](const char* key, double& field) {
    field = options.number(key, field, -kAny, kAny);
  };
  request.steps = options.whole("steps", request.steps, kWhole);
  request.seed = options.whole("seed", request.seed, kWhole);
  request.mixture = options.flag("mixture", request.mixture);
  request.unfused_attention = options.flag("unfused_attention", request.unfused_attention);
  request.sequence_parallel = options.flag("sequence_parallel", request.sequence_parallel);
  request.reduce_dtype = options.text("reduce_dtype", request.reduce_dtype);
  request.pool = options.whole("pool", request.pool, kWhole);
  request.ahead = options.whole("ahead", request.ahead, kWhole);
  number("scheduler_ms", request.scheduler_ms);
  plan::Disturbance& disturbance = request.disturbance;
  number("stragglers", disturbance.straggler_share);
  number("straggler_factor", disturbance.straggler_factor);
  number("anomalies", disturbance.anomaly_share);
  number("anomaly_factor", disturbance.anomaly_factor);
  number("failure_hours", disturbance.hours_between_failures);
  number("restart_seconds", disturbance.restart_s);
  disturbance.checkpoint_steps =
      options.whole("checkpoint_steps", disturbance.checkpoint_steps, kWhole);
  options.refuse_unknown();
  problems.raise_if_any("simulate");
}

}  // namespace

SimulateRequest read_request(const SimulateArguments& arguments) {
  SimulateRequest request;
  request.caller = Caller::kPython;
  const Json options = parse_json(arguments.options, "simulate");
  Json given = options;  // the one flag that is given where it is False
  given["sequence_parallel"] =
      options.contains("sequence_parallel") && options.at("sequence_parallel") == false;
  request.given = given_arguments(given, arguments.sizes || arguments.size_table);
  refuse_idle_options(request.given);
  read_options(options, request);
  request.plan = read_plan(arguments.plan);
  request.plan_name = arguments.plan.where();
  if (arguments.cluster) request.cluster = read_cluster(*arguments.cluster);
  request.model = arguments.model ? read_model(*arguments.model)
                                  : read_model("", request.plan, request.plan_name, request.caller);
  if (arguments.sizes) request.recorded = read_sizes(*arguments.sizes, kColumnsWithSound);
  if (arguments.size_table) request.recorded = sizes_of(*arguments.size_table, kColumnsWithSound);
  return request;
}

}  // namespace tributary::app
