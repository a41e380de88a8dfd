#include "studies/compare/trainer_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "plan/judge/simulate_on.h"
#include "plan/search/runner.h"
#include "plan/search/search_plan.h"
#include "studies/methods/batch_runner.h"

namespace tributary::studies {
namespace {

using config::ModuleNode;
using config::Placement;

plan::ChainChoice chain_of(const Degrees& degrees, bool shards, config::RecomputePlan recompute) {
  plan::ChainChoice chain{.mesh = {.pp = degrees.pp, .tp = degrees.tp}, .recompute = recompute};
  (shards ? chain.mesh.dp_shard : chain.mesh.dp_replicate) = degrees.dp;
  return chain;
}

/// Cuts blocks as evenly as possible, with `first_layers` on the first stage unless it is negative;
/// the embedding comes before them, the head after them.
plan::ChainCut cut_evenly(const ModuleNode& node, std::int64_t stages,
                          std::int64_t first_layers = -1) {
  const bool has_ends = node.name == "backbone";
  const std::int64_t units = plan::units_of(node);
  const std::int64_t blocks = has_ends ? units - 2 : units;
  const std::int64_t first = first_layers < 0 ? layers_of_stage(blocks, stages, 0) : first_layers;
  plan::ChainCut cut = {0, first + (has_ends ? 1 : 0)};
  for (std::int64_t stage = 0; stage + 1 < stages; ++stage)
    cut.push_back(cut.back() + layers_of_stage(blocks - first, stages - 1, stage));
  cut.back() = units;
  return cut;
}

class FormPlacing {
 public:
  FormPlacing(const plan::PlanningProblem& problem, const TrainerForm& form,
              config::RecomputePlan recompute)
      : problem_(problem), form_(form), deals_(problem), judge_(problem, deals_) {
    encoders_ = plan::encoders_of(problem);
    runner_.choice = {.backbone = chain_of(form.backbone, form.shards, recompute),
                      .encoders = {encoders_.size(), std::nullopt},
                      .microbatches = form.microbatches};
    for (std::size_t encoder = 0; encoder < encoders_.size(); ++encoder)
      runner_.choice.inside.set(encoder, recompute);
    const ModuleNode& backbone = *problem.model.find("backbone");
    if (has_own_encoder() && encoders_.size() == 1) {
      runner_.choice.encoders[0] = chain_of(form.encoder, form.shards, recompute);
      if (form.placement == Placement::kColocated) runner_.choice.encoders[0]->passes = 1;
      runner_.cuts.push_back(cut_evenly(*encoders_[0], form.encoder.pp));
    }
    runner_.cuts.push_back(cut_evenly(backbone, form.backbone.pp, form.first_layers));
  }

  TrainerPlan place() {
    if (std::string reason = find_obstacle(); !reason.empty()) return {.reason = std::move(reason)};
    const bool is_colocated = form_.placement == Placement::kColocated && !is_beside_first();
    const std::int64_t max_passes = is_colocated ? form_.microbatches : 1;
    for (std::int64_t passes = 1;; passes = std::min(2 * passes, max_passes)) {
      if (is_colocated) runner_.choice.encoders[0]->passes = passes;
      if (std::optional<plan::FoundPlan> found = run())
        return {.found = std::move(found), .text = describe_choice()};
      if (passes == max_passes) break;
    }
    return {.reason = str("memory: as a plan of the trainer it holds ", min_peak_,
                          " on a device of ", min_of_, ", ", min_peak_ - problem_.memory(),
                          " above the ", problem_.memory(), " that it may hold")};
  }

  /// Whether some plan was too large for the memory.
  [[nodiscard]] bool is_short() const { return !min_of_.empty(); }

 private:
  /// An encoder beside the first stage is chosen as an inline one, and placed afterwards.
  [[nodiscard]] bool is_beside_first() const { return form_.first_stage_passes > 0; }
  [[nodiscard]] bool has_own_encoder() const {
    return form_.placement != Placement::kInline && !is_beside_first();
  }
  [[nodiscard]] bool fits(Bytes peak, const std::string& of) {
    if (peak <= problem_.memory()) return true;
    if (!is_short() || peak < min_peak_) {
      min_peak_ = peak;
      min_of_ = of;
    }
    return false;
  }

  [[nodiscard]] std::string find_obstacle() const {
    if (form_.placement != Placement::kInline && encoders_.size() != 1)
      return str(encoders_.size(),
                 " encoders, which the method's tables take as one, end to end on its devices");
    if (form_.placement == Placement::kFlow && !problem_.is_frozen(encoders_[0]->name))
      return str(encoders_[0]->name,
                 " trains, and an encoder is ahead of its step only where it is frozen");
    const config::MeshShape& whole = runner_.choice.backbone.mesh;
    const auto obstacle = [&](const ModuleNode& node,
                              const config::MeshShape& mesh) -> std::string {
      if (plan::can_cut(problem_, node, mesh)) return {};
      return str(node.name, " cannot be cut so: tp ", mesh.tp, ", pp ", mesh.pp,
                 ", where the method's tables pad heads and take all layers as alike");
    };
    for (std::size_t i = 0; i < encoders_.size(); ++i) {
      const std::optional<plan::ChainChoice>& own = runner_.choice.encoders[i];
      // An inline encoder is entirely on one stage.
      const config::MeshShape mesh =
          own ? own->mesh
              : config::MeshShape{.tp = is_beside_first() ? form_.encoder.tp : whole.tp};
      if (std::string of = obstacle(*encoders_[i], mesh); !of.empty()) return of;
    }
    if (std::string of = obstacle(*problem_.model.find("backbone"), whole); !of.empty()) return of;
    if (!plan::is_aligned(problem_, runner_.choice))
      return str("behind ", form_.encoder.devices(), " ranks of the encoder a tp group of ",
                 form_.backbone.tp, " would lie on two nodes");
    return {};
  }

  /// The first plan that fits; null where none does.
  std::optional<plan::FoundPlan> run() {
    runner_.verdict =
        judge_.judge(runner_.choice, runner_.cuts, 0, plan::different_batches(problem_));
    // Without the encoder's own degrees its memory is not known yet.
    if (!is_beside_first() && !fits(runner_.verdict.peak, runner_.verdict.fullest))
      return std::nullopt;
    plan::FoundPlan found = plan::finish_plan(problem_, deals_, runner_, batches());
    if (is_beside_first()) put_beside_first(found);
    if (form_.placement == Placement::kFlow) run_ahead(found);
    if (!fits(found.peak, found.fullest)) return std::nullopt;
    return found;
  }

  [[nodiscard]] std::string describe_choice() const {
    return describe(problem_, runner_.choice) +
           (form_.placement == Placement::kFlow ? ", encoder ahead of its step" : "") +
           (is_beside_first()
                ? str("; encoder tp ", form_.encoder.tp, ", dp ", form_.encoder.dp,
                      " beside the first stage in ", form_.first_stage_passes, " passes")
                : "");
  }

  [[nodiscard]] std::size_t batches() const {
    const auto messages = static_cast<double>(plan::PlanEffort{}.messages);
    const auto max = static_cast<std::size_t>(messages / plan::messages_of(runner_.choice));
    return std::clamp<std::size_t>(max, 1, plan::different_batches(problem_));
  }

  /// Simulates the same plan with the encoder as far ahead as its pool allows.
  void run_ahead(plan::FoundPlan& found) {
    const std::string& encoder = encoders_[0]->name;
    for (config::ModulePlan& module : found.plan.modules)
      if (module.name == encoder) module.placement = Placement::kFlow;
    for (config::EdgePlan& edge : found.plan.edges)
      if (edge.from == encoder || edge.to == encoder) edge.via = config::EdgeVia::kPool;
    simulate_again(found);
  }

  /// Puts the encoder on the ranks of the first stage, with degrees and passes of its own.
  void put_beside_first(plan::FoundPlan& found) {
    const config::ModulePlan& backbone = *found.plan.find("backbone");
    const auto of_stage = std::ssize(backbone.ranks) / backbone.mesh.pp;
    const std::vector<std::int64_t> ranks(backbone.ranks.begin(),
                                          backbone.ranks.begin() + of_stage);
    for (config::ModulePlan& module : found.plan.modules) {
      if (module.name != encoders_[0]->name) continue;
      module.placement = Placement::kColocated;
      module.ranks = ranks;
      module.mesh = {.tp = form_.encoder.tp};
      (form_.shards ? module.mesh.dp_shard : module.mesh.dp_replicate) = form_.encoder.dp;
      module.passes = form_.first_stage_passes;
      module.turns = module.passes > 1;
    }
    simulate_again(found);
  }

  /// Simulates a plan that was changed on all batches.
  void simulate_again(plan::FoundPlan& found) {
    const simulate::Simulation simulation =
        plan::simulate_on(problem_, found.plan, deals_, 0, plan::different_batches(problem_));
    found.simulated_batches = std::ssize(problem_.batches);
    found.step = simulation.distribution.mean;
    found.deviation = simulation.distribution.deviation;
    found.percentile_95 = simulation.distribution.percentile_95;
    found.peak = simulation.fullest.memory.total();
    found.fullest = plan::module_of(simulation, simulation.fullest.lane);
    found.plan.predicted.peak_bytes = {{found.fullest, found.peak}};
  }

  const plan::PlanningProblem& problem_;
  const TrainerForm& form_;
  plan::BatchDeals deals_;
  plan::PlanJudge judge_;
  std::vector<const ModuleNode*> encoders_;
  plan::Runner runner_;
  Bytes min_peak_;      // min over those that do not fit
  std::string min_of_;  // the module that holds it
};

}  // namespace

TrainerPlan trainer_plan(const plan::PlanningProblem& problem, const TrainerForm& form,
                         config::RecomputePlan recompute) {
  // First as the method has it, then changed to fit, each way once.
  std::vector<std::pair<config::RecomputePlan, bool>> ways;
  for (const config::RecomputePlan level : {recompute, config::RecomputePlan::kFull})
    for (const bool shards : {form.shards, true})
      if (std::ranges::find(ways, std::pair(level, shards)) == ways.end())
        ways.emplace_back(level, shards);
  TrainerPlan placed;
  for (const auto& [level, shards] : ways) {
    TrainerForm own = form;
    own.shards = shards;
    FormPlacing placing(problem, own, level);
    placed = placing.place();
    if (placed.found) {
      placed.found->plan.predicted.step = placed.found->step;
      placed.is_changed = shards != form.shards || level != recompute;
      if (shards != form.shards) placed.text += ", sharded to fit";
      if (level != recompute) placed.text += ", recomputed to fit";
      break;
    }
    placed.is_short = placing.is_short();
    if (!placed.is_short) break;
  }
  return placed;
}

}  // namespace tributary::studies
