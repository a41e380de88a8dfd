#include "app/python/simulate_arguments.h"

#include <nlohmann/json.hpp>

#include "app/answer/measured_machine.h"
#include "app/python/given_arguments.h"
#include "config/reading/artifact_object.h"
#include "core/error.h"

namespace tributary::app {
namespace {

constexpr double kAny = 1e300;  // ranges are checked where the numbers are used
constexpr config::WholeRange kWholeNumber = {-(std::int64_t{1} << 53), std::int64_t{1} << 53};

/// What options name in place of a plan's own samples and layers; empty: nothing.
struct NamedFiles {
  std::string run;
  std::int64_t skip = 0;
  std::string workload;
};

NamedFiles read_options(const Json& json, SimulateRequest& request) {
  NamedFiles files;
  config::Problems problems;
  config::ArtifactObject options(json, "simulate", "", problems);
  const auto number = [&](const char* key, double& field) {
    field = options.number(key, field, -kAny, kAny);
  };
  files.run = options.text("run", files.run);
  files.skip = options.whole("skip", files.skip, kWholeNumber);
  files.workload = options.text("workload", files.workload);
  request.threads = options.whole("threads", request.threads, kWholeNumber);
  request.steps = options.whole("steps", request.steps, kWholeNumber);
  request.seed = options.whole("seed", request.seed, kWholeNumber);
  request.mixture = options.flag("mixture", request.mixture);
  request.unfused_attention = options.flag("unfused_attention", request.unfused_attention);
  request.sequence_parallel = options.flag("sequence_parallel", request.sequence_parallel);
  request.reduce_dtype = options.text("reduce_dtype", request.reduce_dtype);
  request.pool = options.whole("pool", request.pool, kWholeNumber);
  request.ahead = options.whole("ahead", request.ahead, kWholeNumber);
  number("scheduler_ms", request.scheduler_ms);
  simulate::Disturbance& disturbance = request.disturbance;
  number("stragglers", disturbance.straggler_share);
  number("straggler_factor", disturbance.straggler_factor);
  number("anomalies", disturbance.anomaly_share);
  number("anomaly_factor", disturbance.anomaly_factor);
  number("failure_hours", disturbance.hours_between_failures);
  number("restart_seconds", disturbance.restart_s);
  disturbance.checkpoint_steps =
      options.whole("checkpoint_steps", disturbance.checkpoint_steps, kWholeNumber);
  options.refuse_unknown();
  problems.raise_if_any("simulate");
  return files;
}

/// All that the call gave, by name; of `sequence_parallel` False is.
GivenOptions given_of(const SimulateArguments& arguments, const Json& options) {
  Json given = options;
  given["sequence_parallel"] =
      options.contains("sequence_parallel") && options.at("sequence_parallel") == false;
  given["plan"] = arguments.plan.has_value();
  given["model"] = arguments.model.has_value();
  given["profile"] = arguments.profile.has_value();
  return given_arguments(given, arguments.sizes || arguments.size_table);
}

void read_model_and_profile(const SimulateArguments& arguments, SimulateRequest& request) {
  const bool is_path = !arguments.model || arguments.model->is_path;
  const std::string path = is_path ? find_model(arguments.model ? arguments.model->text : "",
                                                request.plan, request.plan_name, request.caller)
                                   : "";
  request.model = is_path ? read_graph(path) : read_model(*arguments.model);
  if (!arguments.profile) return;
  request.profile = read_profile(*arguments.profile);
  request.profile_name = arguments.profile->where();
  if (is_path) check_profile_model(*request.profile, request.profile_name, path);
}

}  // namespace

config::Trace simulate_given(const SimulateArguments& arguments) {
  SimulateRequest request;
  request.caller = Caller::kPython;
  const Json options = parse_json(arguments.options, "simulate");
  request.given = given_of(arguments, options);
  refuse_idle_options(request.given);
  const NamedFiles files = read_options(options, request);
  if (arguments.cluster) request.cluster = read_cluster(*arguments.cluster);
  if (request.given.has("--workload"))
    return answer_workload(simulate::read_simai_workload(files.workload), request);
  TRIB_REQUIRE(arguments.plan.has_value(), .what = "app: nothing to simulate", .where = "simulate",
               .expected = "plan or workload");
  request.plan = read_plan(*arguments.plan);
  request.plan_name = arguments.plan->where();
  read_model_and_profile(arguments, request);
  if (request.given.has("--run")) take_run(request, files.run, files.skip);
  if (arguments.sizes) request.recorded = read_sizes(*arguments.sizes);
  if (arguments.size_table) request.recorded = sizes_of(*arguments.size_table);
  return answer_simulate(request);
}

}  // namespace tributary::app
