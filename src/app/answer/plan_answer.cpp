#include "app/answer/plan_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/answer/certificate_json.h"
#include "app/answer/measured_machine.h"
#include "app/answer/simulate_answer.h"
#include "app/answer/standard_cluster.h"
#include "config/plan/plan_names.h"
#include "config/trace/beyond_grid_json.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "plan/cost/watched_costs.h"
#include "plan/exact/judge/simulate_on.h"
#include "plan/exact/plan_choice.h"

namespace tributary::app {
namespace {

using plan::FoundPlan;
using plan::PlanningProblem;

constexpr std::int64_t kMostDevicesUnasked = 4096;

void check_request(const PlanRequest& request) {
  const auto require = [&](const char* name, std::int64_t value, std::int64_t least,
                           std::int64_t most) {
    TRIB_REQUIRE(value >= least && value <= most, .what = "app: value cannot be used",
                 .where = argument_name(request.caller, name), .found = str(value),
                 .expected = str(least, " to ", most));
  };
  require("devices", request.devices, 0, 1 << 20);
  require("global_samples", request.global_samples, 1, 1 << 20);
  require("tokens", request.tokens, 1, 1 << 24);
  require("batches", request.batches, 1, 1000);
  require("seed", request.seed, 0, std::int64_t{1} << 53);
  require("candidates", request.candidates, 0, 100'000);
  require("threads", request.threads, 0, 1 << 16);
  TRIB_REQUIRE(request.profile || request.threads == 0,
               .what = "app: threads count with measured costs alone",
               .where = argument_name(request.caller, "threads"), .found = str(request.threads),
               .expected = "a profile beside it");
  const GivenOptions& given = request.given;
  if (request.recorded)
    given.refuse({"--tokens"}, str(given.name("--lengths"), ", which says it of each sample"),
                 "one of both");
  if (!plan::encoders_of({.model = request.model, .cluster = {}, .batches = {}}).empty())
    given.refuse({"--tokens"}, "a model with an encoder",
                 str(given.name("--lengths"), " for its samples, or their mixture"));
}

void set_measured(const PlanRequest& request, PlanningProblem& problem) {
  MeasuredMachine machine =
      measured_machine(*request.profile, request.profile_name, problem.devices, request.threads,
                       request.cluster, request.caller);
  problem.cluster = std::move(machine.cluster);
  problem.measured = std::move(machine.costs);
  problem.threads = request.threads;
}

/// All devices of a cluster where nobody says how many; of one that is larger than a plan is likely
/// meant for, as files about a kind of node are, one node.
std::int64_t devices_unasked(const PlanRequest& request, const config::Cluster& cluster) {
  if (cluster.devices <= kMostDevicesUnasked) return cluster.devices;
  const std::int64_t node = cluster.devices_per_node();
  TRIB_REQUIRE(node <= kMostDevicesUnasked,
               .what = "app: cluster is larger than a plan is likely meant for",
               .where = "cluster.devices", .found = str(cluster.devices, ", ", node, " in a node"),
               .expected = str("at most ", kMostDevicesUnasked),
               .fix = str("give ", argument_name(request.caller, "devices")));
  return node;
}

void set_machine(const PlanRequest& request, PlanningProblem& problem) {
  TRIB_REQUIRE(request.devices > 0 || request.cluster || !request.profile,
               .what = "app: no devices to plan for",
               .where = argument_name(request.caller, "devices"), .found = "no such argument",
               .expected = "the number of ranks on the profile's machine", .fix = "give it");
  problem.cluster = request.cluster ? *request.cluster : standard_cluster();
  problem.devices =
      request.devices > 0 ? request.devices : devices_unasked(request, problem.cluster);
  if (request.profile) set_measured(request, problem);
}

void draw_batches(const PlanRequest& request, PlanningProblem& problem) {
  const auto seed = static_cast<std::uint64_t>(request.seed);
  const bool has_encoder = !plan::encoders_of(problem).empty();
  const plan::MixtureSound sound = plan::mixture_sound(problem.model);
  for (std::int64_t i = 0; i < request.batches; ++i) {
    const auto batch = static_cast<std::uint64_t>(i);
    if (request.recorded) {
      problem.batches.push_back(
          plan::draw_recorded(*request.recorded, seed, batch, request.global_samples));
    } else if (has_encoder) {
      problem.batches.push_back(plan::draw_mixture(seed, batch, request.global_samples, sound));
    } else {
      problem.batches.emplace_back(static_cast<std::size_t>(request.global_samples),
                                   plan::SampleSize{.tokens = request.tokens});
    }
  }
  if (!request.recorded) return;
  for (const plan::SampleSize& size : request.recorded->sizes)
    problem.longest_sample = std::max(problem.longest_sample, Tokens{size.tokens});
}

/// What a plan asks of a profile beyond its points, on the batches that it was simulated on.
std::vector<config::BeyondGrid> find_beyond_grid(PlanningProblem problem, const FoundPlan& found) {
  if (found.simulated_batches == 0) return {};
  const auto watched = std::make_shared<const plan::WatchedCosts>(problem.measured);
  problem.measured = watched;
  (void)plan::simulate_on(problem, found.plan, found.simulated_batches);
  return watched->beyond_grid();
}

void narrow_schedules(const PlanRequest& request, plan::PlanSpace& space) {
  if (request.schedules.empty()) return;
  space.schedules.clear();
  for (const std::string& word : request.schedules) {
    const auto& names = config::plan_names_of<config::PipelineOrder>();
    const auto found = std::find(names.begin(), names.end(), word);
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    TRIB_REQUIRE(found != names.end(), .what = "app: no such schedule",
                 .where = argument_name(request.caller, "schedules"), .found = word,
                 .expected = str("some of ", known));
    space.schedules.push_back(static_cast<config::PipelineOrder>(found - names.begin()));
  }
}

/// Axes that are not named have one rank; sequences are cut however short they are where cp or
/// ulysses is named.
void narrow_axes(const PlanRequest& request, plan::PlanSpace& space) {
  if (request.axes.empty()) return;
  plan::PlanSpace one;
  const std::vector<std::pair<std::string, std::int64_t plan::PlanSpace::*>> axes = {
      {"tp", &plan::PlanSpace::most_tp},           {"pp", &plan::PlanSpace::most_stages},
      {"dp", &plan::PlanSpace::most_replicas},     {"cp", &plan::PlanSpace::most_cp},
      {"ulysses", &plan::PlanSpace::most_ulysses}, {"ep", &plan::PlanSpace::most_ep}};
  for (const auto& [name, field] : axes) space.*field = 1;
  for (const std::string& word : request.axes) {
    const auto found = std::find_if(axes.begin(), axes.end(),
                                    [&](const auto& axis) { return axis.first == word; });
    TRIB_REQUIRE(found != axes.end(), .what = "app: no such axis",
                 .where = argument_name(request.caller, "axes"), .found = word,
                 .expected = "some of tp, pp, dp, cp, ulysses, ep");
    space.*found->second = one.*found->second;
    if (word == "cp" || word == "ulysses") space.long_sample = 0;
  }
}

/// What the first of the orders lacks: stages, or units of the backbone to cut into its chunks.
std::string find_shortage(const PlanningProblem& problem) {
  const plan::PlanSpace& space = problem.space;
  const config::PipelineOrder order = space.schedules.front();
  const std::string& name = config::plan_name_of(order);
  const std::int64_t stages = std::min(problem.devices, space.most_stages);
  if (stages < 2)
    return str("; ", name, " needs 2 stages, 1 more than ",
               problem.devices < 2 ? "1 device has" : "the axes allow");
  const std::int64_t fixed = config::virtual_stages_of(order);
  const std::int64_t chunks = fixed > 0 ? fixed : space.chunks.front();
  const std::int64_t units = plan::units_of(*problem.model.find("backbone"));
  if (2 * chunks <= units) return {};
  return str("; ", name, " needs ", 2 * chunks, " units of the backbone for 2 stages, ",
             2 * chunks - units, " more than its ", units);
}

/// Where orders that were asked for have no plan: what they lack, and what the usual ones have.
std::string explain_schedules(const PlanRequest& request, const PlanningProblem& problem) {
  PlanningProblem usual = problem;
  usual.space.schedules = plan::PlanSpace{}.schedules;
  const plan::PlanSearch search = search_plan(usual, {.candidates = {.keep = request.candidates}});
  const std::string shortage = find_shortage(problem);
  if (search.plans.empty())
    return str(shortage, "; the usual ones have no plan either: ", search.certificate.limit);
  const FoundPlan& best = search.plans.front();
  return str(shortage, "; the usual ones have a plan of ", 1e3 * seconds_of(best.step),
             " ms: ", describe(usual, best.choice));
}

Json plans_json(const PlanAnswer& answer, std::int64_t keep) {
  Json plans = Json::array();
  for (const FoundPlan& found : answer.search.plans) {
    if (std::ssize(plans) == keep) break;
    plans.push_back(to_json(found, describe(answer.problem, found.choice)));
    plans.back()["gap"] = gap_above(found.step, answer.search.certificate.lower_bound);
  }
  return plans;
}

}  // namespace

plan::PlanningProblem problem_of(const PlanRequest& request) {
  check_request(request);
  PlanningProblem problem{.model = request.model, .cluster = {}, .batches = {}};
  problem.frozen = request.frozen;
  set_machine(request, problem);
  draw_batches(request, problem);
  problem.space.runnable = request.runnable;
  narrow_schedules(request, problem.space);
  narrow_axes(request, problem.space);
  return problem;
}

std::string note_on_devices(const PlanRequest& request, const PlanningProblem& problem) {
  if (request.devices > 0 || problem.devices == problem.cluster.devices) return {};
  return str("planned for one node, ", problem.devices, " of the cluster's ",
             problem.cluster.devices, " devices: ", argument_name(request.caller, "devices"),
             " says how many");
}

void check_keep(std::int64_t keep, Caller caller) {
  TRIB_REQUIRE(keep >= 1 && keep <= 10, .what = "app: value cannot be used",
               .where = argument_name(caller, "keep"), .found = str(keep), .expected = "1 to 10");
}

void note_samples(const PlanRequest& request, const PlanningProblem& problem, config::Plan& plan) {
  using config::PlannedSamples;
  if (request.recorded) {
    plan.predicted.samples = PlannedSamples::kRecorded;
  } else if (!plan::encoders_of(problem).empty()) {
    plan.predicted.samples = PlannedSamples::kMixture;
  } else {
    plan.predicted.samples = PlannedSamples::kEqual;
    plan.predicted.sample_tokens = {request.tokens};
  }
}

PlanAnswer answer_plan(const PlanRequest& request) {
  PlanAnswer answer{.problem = problem_of(request)};
  answer.note = note_on_devices(request, answer.problem);
  const Stopwatch watch;
  answer.search = search_plan(answer.problem, {.candidates = {.keep = request.candidates}});
  for (FoundPlan& found : answer.search.plans) note_samples(request, answer.problem, found.plan);
  answer.milliseconds = 1e3 * watch.seconds();
  std::string& limit = answer.search.certificate.limit;
  if (answer.search.plans.empty() && !request.schedules.empty() && limit.starts_with("schedules: "))
    limit += explain_schedules(request, answer.problem);
  if (request.profile && !answer.search.plans.empty())
    answer.beyond_grid = find_beyond_grid(answer.problem, answer.search.plans.front());
  if (request.explain && !answer.search.plans.empty())
    answer.explanation =
        explain_plan(answer.problem, answer.search.plans.front(), kExplainedBatches);
  return answer;
}

Json to_json(const plan::PlanExplanation& explanation) {
  Json json{{"step_s", seconds_of(explanation.step)},
            {"busy", explanation.busy},
            {"communication", explanation.communication},
            {"fullest", explanation.fullest},
            {"available_bytes", explanation.available.count}};
  for (const auto& [kind, time] : explanation.critical_path)
    json["critical_path_s"][kind] = seconds_of(time);
  for (const auto& [cause, share] : explanation.idle) json["idle"][cause] = share;
  for (const auto& [holder, bytes] : explanation.memory) json["memory"][holder] = bytes.count;
  json["remedies"] = Json::array();
  for (const plan::Remedy& remedy : explanation.remedies)
    json["remedies"].push_back(
        {{"change", remedy.change}, {"step_s", seconds_of(remedy.step)}, {"gain", remedy.gain}});
  return json;
}

Json to_json(const FoundPlan& found, const std::string& told) {
  return {{"plan", told},
          {"step_s", seconds_of(found.step)},
          {"deviation_s", seconds_of(found.deviation)},
          {"percentile_95_s", seconds_of(found.percentile_95)},
          {"devices", found.choice.devices()},
          {"peak_bytes", found.peak.count},
          {"fullest", found.fullest},
          {"links_shared", found.links_shared},
          {"simulated_batches", found.simulated_batches},
          {"outside_grid", found.outside_grid}};
}

Json to_json(const PlanAnswer& answer, std::int64_t keep) {
  const plan::PlanSearch& search = answer.search;
  const plan::Certificate& certificate = search.certificate;
  Json json = {
      {"method", kExact},
      {"status", plan::name_of(certificate.status)},
      {"value", seconds_of(certificate.value)},
      {"lower_bound", seconds_of(certificate.lower_bound)},
      {"gap", search.plans.empty() ? 0 : certificate.gap()},
      {"evaluations", certificate.evaluations},
      {"milliseconds", answer.milliseconds},
      {"limit", certificate.limit},
      {"cells", search.cells},
      {"estimates", search.estimates},
      {"judged", search.judged},
      {"unshared", search.unshared},
      {"left_out", {{"cells", search.left_out.cells}, {"degrees", search.left_out.degrees}}},
      {"beyond_grid", answer.beyond_grid},
      {"plans", plans_json(answer, keep)}};
  if (answer.explanation) json["explanation"] = to_json(*answer.explanation);
  return json;
}

}  // namespace tributary::app
