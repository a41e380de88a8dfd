#include "app/answers/plan_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/answers/certificate_json.h"
#include "app/requests/measured_machine.h"
#include "app/requests/standard_cluster.h"
#include "config/family/known_modules.h"
#include "config/plan/plan_names.h"
#include "config/trace/trace.h"
#include "core/error.h"
#include "core/join.h"
#include "core/stopwatch.h"
#include "cost/watched_costs.h"
#include "plan/judge/simulate_on.h"
#include "plan/problem/plan_choice.h"
#include "studies/compare/planned_methods.h"

namespace tributary::app {
namespace {

using plan::FoundPlan;
using plan::PlanningProblem;

constexpr std::int64_t kMaxDevicesUnasked = 4096;

void set_measured(const PlanRequest& request, PlanningProblem& problem) {
  MeasuredMachine machine =
      measured_machine(*request.profile, request.options.profile.where(), problem.devices,
                       request.options.threads, request.cluster, request.options.given.caller());
  problem.cluster = std::move(machine.cluster);
  problem.measured = std::move(machine.costs);
  problem.threads = request.options.threads;
}

/// The default number of devices: all of the cluster. Files that describe a kind of node have more
/// devices than anyone plans for; there it is one node.
std::int64_t devices_unasked(const PlanRequest& request, const config::Cluster& cluster) {
  if (cluster.devices <= kMaxDevicesUnasked) return cluster.devices;
  const std::int64_t node = cluster.devices_per_node();
  TRIB_REQUIRE(node <= kMaxDevicesUnasked,
               .what = "app: cluster is larger than a plan is likely meant for",
               .where = "cluster.devices", .found = str(cluster.devices, ", ", node, " in a node"),
               .expected = str("at most ", kMaxDevicesUnasked),
               .fix = str("give ", request.options.given.name("--devices")));
  return node;
}

void set_machine(const PlanRequest& request, PlanningProblem& problem) {
  TRIB_REQUIRE(request.options.devices > 0 || request.cluster || !request.profile,
               .what = "app: no devices to plan for",
               .where = request.options.given.name("--devices"), .found = "no such argument",
               .expected = "the number of ranks on the profile's machine", .fix = "give it");
  problem.cluster = request.cluster ? *request.cluster : standard_cluster();
  problem.devices = request.options.devices > 0 ? request.options.devices
                                                : devices_unasked(request, problem.cluster);
  if (request.profile) set_measured(request, problem);
}

void draw_batches(const PlanRequest& request, PlanningProblem& problem) {
  const auto seed = static_cast<std::uint64_t>(request.options.seed);
  const bool has_encoder = !plan::encoders_of(problem).empty();
  const simulate::MixtureSound sound = simulate::mixture_sound(problem.model);
  for (std::int64_t i = 0; i < request.options.batches; ++i) {
    const auto batch = static_cast<std::uint64_t>(i);
    if (request.recorded) {
      problem.batches.push_back(
          simulate::draw_recorded(*request.recorded, seed, batch, request.options.global_samples));
    } else if (has_encoder) {
      problem.batches.push_back(
          simulate::draw_mixture(seed, batch, request.options.global_samples, sound));
    } else {
      problem.batches.emplace_back(static_cast<std::size_t>(request.options.global_samples),
                                   simulate::SampleSize{.tokens = request.options.tokens});
    }
  }
  if (!request.recorded) return;
  for (const simulate::SampleSize& size : request.recorded->sizes)
    problem.longest_sample = std::max(problem.longest_sample, Tokens{size.tokens});
}

/// The sizes above the profile's largest that a plan needs on the batches it was simulated on.
std::vector<config::BeyondGrid> find_beyond_grid(PlanningProblem problem, const FoundPlan& found) {
  if (found.simulated_batches == 0) return {};
  const auto watched = std::make_shared<const cost::WatchedCosts>(problem.measured);
  problem.measured = watched;
  (void)plan::simulate_on(problem, found.plan, found.simulated_batches);
  return watched->beyond_grid();
}

void narrow_schedules(const PlanRequest& request, plan::PlanSpace& space) {
  if (request.options.schedules.empty()) return;
  space.schedules.clear();
  for (const std::string& word : request.options.schedules) {
    const auto& names = config::plan_names_of<config::PipelineOrder>();
    const auto found = std::find(names.begin(), names.end(), word);
    TRIB_REQUIRE(found != names.end(), .what = "app: no such schedule",
                 .where = request.options.given.name("--schedules"), .found = word,
                 .expected = str("some of ", join(names)));
    space.schedules.push_back(static_cast<config::PipelineOrder>(found - names.begin()));
  }
}

/// Gives axes that are not named one rank. Naming cp or ulysses allows to cut short sequences too.
void narrow_axes(const PlanRequest& request, plan::PlanSpace& space) {
  if (request.options.axes.empty()) return;
  plan::PlanSpace one;
  const std::vector<std::pair<std::string, std::int64_t plan::PlanSpace::*>> axes = {
      {"tp", &plan::PlanSpace::max_tp},           {"pp", &plan::PlanSpace::max_stages},
      {"dp", &plan::PlanSpace::max_replicas},     {"cp", &plan::PlanSpace::max_cp},
      {"ulysses", &plan::PlanSpace::max_ulysses}, {"ep", &plan::PlanSpace::max_ep}};
  for (const auto& [name, field] : axes) space.*field = 1;
  for (const std::string& word : request.options.axes) {
    const auto found = std::find_if(axes.begin(), axes.end(),
                                    [&](const auto& axis) { return axis.first == word; });
    TRIB_REQUIRE(found != axes.end(), .what = "app: no such axis",
                 .where = request.options.given.name("--axes"), .found = word,
                 .expected = "some of tp, pp, dp, cp, ulysses, ep");
    space.*found->second = one.*found->second;
    if (word == "cp" || word == "ulysses") space.long_sample = 0;
  }
}

/// What the first of the schedules lacks: stages, or enough units of the backbone for its chunks.
std::string find_shortage(const PlanningProblem& problem) {
  const plan::PlanSpace& space = problem.space;
  const config::PipelineOrder order = space.schedules.front();
  const std::string& name = config::plan_name_of(order);
  const std::int64_t stages = std::min(problem.devices, space.max_stages);
  if (stages < 2)
    return str("; ", name, " needs 2 stages, 1 more than ",
               problem.devices < 2 ? "1 device has" : "the axes allow");
  const std::int64_t fixed = config::virtual_stages_of(order);
  const std::int64_t chunks = fixed > 0 ? fixed : space.chunks.front();
  const std::int64_t units = plan::units_of(*problem.model.find(config::kBackboneModule));
  if (2 * chunks <= units) return {};
  return str("; ", name, " needs ", 2 * chunks, " units of the backbone for 2 stages, ",
             2 * chunks - units, " more than its ", units);
}

/// Says what the schedules that were asked for lack, and which plan the usual ones have.
std::string explain_schedules(const PlanRequest& request, const PlanningProblem& problem) {
  PlanningProblem usual = problem;
  usual.space.schedules = plan::PlanSpace{}.schedules;
  const plan::PlanSearch search =
      search_plan(usual, {.candidates = {.keep = request.options.candidates}});
  const std::string shortage = find_shortage(problem);
  if (search.plans.empty())
    return str(shortage, "; the usual ones have no plan either: ", search.certificate.limit);
  const FoundPlan& best = search.plans.front();
  return str(shortage, "; the usual ones have a plan of ", 1e3 * seconds_of(best.step),
             " ms: ", describe(usual, best.choice));
}

Json plans_json(const PlanAnswer& answer, std::int64_t keep) {
  Json plans = Json::array();
  for (const ListedPlan& listed : answer.plans)
    if (std::ssize(plans) < keep)
      plans.push_back(to_json(listed, describe(answer.problem, listed.found.choice)));
  return plans;
}

/// Refuses `runnable` for a model that the trainer does not know: no plan of it trains.
void check_runnable(const PlanRequest& request) {
  TRIB_REQUIRE(!request.options.runnable || request.trainer.refusal_of_model().empty(),
               .what = "app: the trainer runs no plan of this model",
               .where = request.options.given.name("--runnable"),
               .found = request.trainer.refusal_of_model(),
               .expected = "a model that `train` knows",
               .fix = "leave it out to plan for simulation");
}

std::vector<ListedPlan> list_plans(const PlanRequest& request, const PlanningProblem& problem,
                                   const plan::PlanSearch& search) {
  std::vector<ListedPlan> plans;
  for (const FoundPlan& found : search.plans)
    plans.push_back(list_plan(request, problem, found, search.certificate.lower_bound));
  return plans;
}

/// Searches, and says of each plan whether it trains. The space has no plan that `train` refuses of
/// a model that it knows, unless another key of the run configuration forbids it.
void search_plans(const PlanRequest& request, PlanAnswer& answer) {
  answer.search = search_plan(answer.problem, {.candidates = {.keep = request.options.candidates}});
  answer.plans = list_plans(request, answer.problem, answer.search);
  if (!request.options.runnable || answer.plans.empty()) return;
  const std::string refusal = answer.plans.front().refusal;
  if (std::erase_if(answer.plans, [](const auto& listed) { return !listed.trains(); }) == 0) return;
  plan::Certificate& certificate = answer.search.certificate;
  if (answer.plans.empty()) {
    certificate.limit = str("`train` refuses the plans: ", refusal);
    return;
  }
  certificate.value = answer.plans.front().found.step;
  certificate.status = plan::Status::kFeasible;
}

}  // namespace

plan::PlanningProblem problem_of(const PlanRequest& request) {
  PlanningProblem problem{.model = request.model, .cluster = {}, .batches = {}};
  problem.frozen = request.options.freeze;
  problem.training = request.training;
  set_machine(request, problem);
  draw_batches(request, problem);
  problem.longest_sample = std::max(problem.longest_sample, request.trainer.longest_sample());
  narrow_schedules(request, problem.space);
  narrow_axes(request, problem.space);
  return problem;
}

std::string note_on_devices(const PlanRequest& request, const PlanningProblem& problem) {
  if (request.options.devices > 0 || problem.devices == problem.cluster.devices) return {};
  return str("planned for one node, ", problem.devices, " of the cluster's ",
             problem.cluster.devices, " devices: ", request.options.given.name("--devices"),
             " says how many");
}

void check_keep(const PlanOptions& options) {
  TRIB_REQUIRE(options.keep >= 1 && options.keep <= 10, .what = "app: value cannot be used",
               .where = options.given.name("--keep"), .found = str(options.keep),
               .expected = "1 to 10");
}

void note_samples(const PlanRequest& request, const PlanningProblem& problem, config::Plan& plan) {
  using config::PlannedSamples;
  if (request.recorded) {
    plan.predicted.samples = PlannedSamples::kRecorded;
  } else if (!plan::encoders_of(problem).empty()) {
    plan.predicted.samples = PlannedSamples::kMixture;
  } else {
    plan.predicted.samples = PlannedSamples::kEqual;
    plan.predicted.sample_tokens = {request.options.tokens};
  }
}

double mean_tokens(const PlanningProblem& problem) { return mean_batch(problem).backbone.tokens; }

ListedPlan list_plan(const PlanRequest& request, const PlanningProblem& problem, FoundPlan found,
                     Nanoseconds bound) {
  note_samples(request, problem, found.plan);
  ListedPlan listed;
  listed.found = std::move(found);
  listed.refusal = request.trainer.refusal_of(listed.found.plan);
  listed.gap = gap_above(listed.found.step, bound);
  const double seconds = seconds_of(listed.found.step);
  listed.tokens_per_s = mean_tokens(problem) / seconds;
  const bool knows_peak = !request.profile || request.profile->flops_per_s > 0;
  if (knows_peak)
    listed.mfu = studies::mean_flops(problem, listed.found.plan) /
                 (seconds * static_cast<double>(listed.found.choice.devices()) *
                  problem.cluster.device.matrix_flops_per_s);
  return listed;
}

PlanAnswer answer_plan(const PlanRequest& request) {
  check_runnable(request);
  PlanAnswer answer{.problem = problem_of(request)};
  answer.note = note_on_devices(request, answer.problem);
  answer.tokens = mean_tokens(answer.problem);
  const Stopwatch watch;
  search_plans(request, answer);
  answer.milliseconds = 1e3 * watch.seconds();
  std::string& limit = answer.search.certificate.limit;
  if (answer.plans.empty() && !request.options.schedules.empty() &&
      limit.starts_with("schedules: "))
    limit += explain_schedules(request, answer.problem);
  if (answer.plans.empty()) return answer;
  const FoundPlan& best = answer.plans.front().found;
  if (request.profile) answer.beyond_grid = find_beyond_grid(answer.problem, best);
  if (request.options.explain)
    answer.explanation = explain_plan(answer.problem, best, kExplainedBatches);
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

Json to_json(const ListedPlan& listed, const std::string& told) {
  const FoundPlan& found = listed.found;
  return {{"plan", told},
          {"trains", listed.trains()},
          {"refusal", listed.refusal},
          {"step_s", seconds_of(found.step)},
          {"deviation_s", seconds_of(found.deviation)},
          {"percentile_95_s", seconds_of(found.percentile_95)},
          {"tokens_per_s", listed.tokens_per_s},
          {"mfu", listed.mfu},
          {"devices", found.choice.devices()},
          {"peak_bytes", found.peak.count},
          {"fullest", found.fullest},
          {"links_shared", found.links_shared},
          {"simulated_batches", found.simulated_batches},
          {"outside_grid", found.outside_grid},
          {"gap", listed.gap}};
}

Json to_json(const PlanAnswer& answer, std::int64_t keep) {
  const plan::PlanSearch& search = answer.search;
  const plan::Certificate& certificate = search.certificate;
  Json json = {
      {"method", kSearch},
      {"status", plan::name_of(certificate.status)},
      {"value", seconds_of(certificate.value)},
      {"lower_bound", seconds_of(certificate.lower_bound)},
      {"gap", answer.plans.empty() ? 0 : certificate.gap()},
      {"evaluations", certificate.evaluations},
      {"milliseconds", answer.milliseconds},
      {"limit", certificate.limit},
      {"global_samples", answer.problem.global_samples()},
      {"tokens", answer.tokens},
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
