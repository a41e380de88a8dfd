#include "plan/judge/plan_judge.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "config/family/known_modules.h"
#include "core/error.h"
#include "plan/judge/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {

namespace {

/// Rounds to 1 part in 2^bits, so that nearly equal sizes become equal.
std::int64_t rounded(double size, int bits) {
  if (size <= 0) return 0;
  const auto whole = static_cast<std::uint64_t>(size);
  const int shift = static_cast<int>(std::bit_width(whole)) - 1 - bits;
  if (shift <= 0) return static_cast<std::int64_t>(size + 0.5);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return static_cast<std::int64_t>((whole + half) >> shift << shift);
}

/// The number of replicas in each run of neighbours with the same microbatches.
std::vector<std::int64_t> count_alike(
    const std::vector<std::vector<cost::MicrobatchShape>>& replicas) {
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (i > 0 && replicas[i] == replicas[i - 1])
      ++times.back();
    else
      times.push_back(1);
  }
  return times;
}

/// Stages with the same units are of one kind.
struct StageKinds {
  std::vector<std::size_t> of_stage;              // [stages]
  std::vector<std::vector<std::int64_t>> counts;  // [kinds] units of each class
  std::vector<int> last_class;                    // [kinds]
};

StageKinds kinds_of(const ChainCosts& chain, const ChainCut& cut) {
  StageKinds kinds;
  std::map<std::pair<std::vector<std::int64_t>, int>, std::size_t> known;
  for (std::size_t stage = 0; stage + 1 < cut.size(); ++stage) {
    const int last = chain.class_of(cut[stage + 1] - 1);
    std::vector<std::int64_t> counts = chain.count(cut[stage], cut[stage + 1]);
    const auto [found, is_new] = known.try_emplace({counts, last}, kinds.counts.size());
    kinds.of_stage.push_back(found->second);
    if (!is_new) continue;
    kinds.counts.push_back(std::move(counts));
    kinds.last_class.push_back(last);
  }
  return kinds;
}

/// The passes of each priced size on each kind of stage, computed once.
class StagePasses {
 public:
  /// passes: the list that it appends to
  StagePasses(const ChainCosts& chain, const StageKinds& stages, std::vector<StagePass>& passes)
      : chain_(chain), stages_(stages), passes_(passes) {}

  /// The index in `passes` where those of a size begin.
  std::size_t first_of(std::size_t number, const std::vector<cost::StageCost>& priced) {
    if (number >= first_.size()) first_.resize(2 * number + 1, kUnknown);
    std::size_t& first = first_[number];
    if (first == kUnknown) {
      first = passes_.size();
      for (std::size_t kind = 0; kind < stages_.counts.size(); ++kind) add(kind, priced);
    }
    return first;
  }

 private:
  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

  void add(std::size_t kind, const std::vector<cost::StageCost>& priced) {
    const cost::StageCost cost =
        cost_of_stage(chain_, priced, stages_.counts[kind], stages_.last_class[kind]);
    passes_.push_back({{.forward = (cost.forward + cost.forward_exposed).count,
                        .input_gradient = (cost.input_gradient + cost.gradient_exposed).count,
                        .weight_gradient = cost.weight_gradient.count,
                        .boundary = cost.boundary.count},
                       {cost.kept.count, cost.kept_after_input_gradient.count,
                        cost.backward_peak.count, cost.forward_peak.count}});
  }

  const ChainCosts& chain_;
  const StageKinds& stages_;
  std::vector<std::size_t> first_;  // [prices] into passes_
  std::vector<StagePass>& passes_;  // [sizes so far, kinds]
};

}  // namespace

Nanoseconds PlanVerdict::mean() const {
  std::int64_t sum = 0;
  for (const Nanoseconds step : steps) sum += step.count;
  return {sum / std::max<std::int64_t>(1, std::ssize(steps))};
}

PlanJudge::PlanJudge(const PlanningProblem& problem, BatchDeals& deals)
    : problem_(problem), deals_(deals), equal_samples_(has_equal_samples(problem)) {}
PlanJudge::~PlanJudge() = default;

PlanJudge::PricedChain& PlanJudge::chain_of(const PlanChoice& choice, std::size_t chain) {
  std::uint64_t apart = 0;
  std::size_t separate = 0;
  const ChainChoice* of = &choice.backbone;
  for (std::size_t i = 0; i < choice.encoders.size(); ++i) {
    if (!choice.encoders[i]) continue;
    apart |= std::uint64_t{1} << i;
    if (separate++ == chain) of = &*choice.encoders[i];
  }
  const config::MeshShape& mesh = of->mesh;
  const std::uint64_t inside = of == &choice.backbone ? choice.inside.bits : 0;
  ChainKey key{chain,
               apart,
               choice.is_cut(),
               {mesh.dp_replicate, mesh.dp_shard, mesh.cp, mesh.ulysses, mesh.tp, mesh.ep,
                static_cast<std::int64_t>(of->recompute), static_cast<std::int64_t>(inside)}};
  std::unique_ptr<PricedChain>& found = chains_[key];
  if (!found) {
    // With several stages, replicas and shards do not change passes, unless each pass gathers.
    if (choice.is_cut() && mesh.ep == 1 &&
        problem_.execution.release != config::Release::kAfterForward)
      std::get<3>(key)[0] = std::get<3>(key)[1] = 1;
    std::shared_ptr<Prices>& prices = prices_[key];
    if (!prices) prices = std::make_shared<Prices>();
    found = std::make_unique<PricedChain>(
        PricedChain{ChainCosts(problem_, choice, chain, choice.is_cut()), {}, prices});
    for (const cost::Media media : cost::kAllMedia)
      if (found->costs.works_on(media)) found->media.push_back(media);
  }
  return *found;
}

const ChainCosts& PlanJudge::costs_of(const PlanChoice& choice, std::size_t chain) {
  return chain_of(choice, chain).costs;
}

const PlanJudge::Price& PlanJudge::price(PricedChain& chain, bool is_backbone,
                                         const cost::MicrobatchShape& shape) {
  constexpr int kAllBits = 62;
  const int bits = sizes_ == Sizes::kRounded ? 8 : kAllBits;
  const int square_bits = sizes_ == Sizes::kRounded ? 5 : kAllBits;
  SizeKey key{};
  const auto note = [&](std::size_t place, const cost::PassShape& pass) {
    key[place] = rounded(pass.tokens, bits);
    key[place + 1] = rounded(pass.squared_tokens, square_bits);
  };
  const auto place_of = [](cost::Media media) { return 2 + 2 * static_cast<std::size_t>(media); };
  if (is_backbone) note(0, shape.backbone);
  for (const cost::Media media : chain.media) note(place_of(media), shape.of(media));
  const auto [found, is_new] = chain.priced->try_emplace(key);
  if (is_new) {
    found->second.number = chain.priced->size() - 1;
    cost::MicrobatchShape at = shape;
    const auto take = [&](std::size_t place, cost::PassShape& pass) {
      pass.tokens = static_cast<double>(key[place]);
      pass.squared_tokens = static_cast<double>(key[place + 1]);
    };
    take(0, at.backbone);
    for (const cost::Media media : cost::kAllMedia) take(place_of(media), at.of(media));
    for (std::size_t unit = 0; unit < chain.costs.classes(); ++unit)
      found->second.units.push_back(chain.costs.cost(unit, at));
  }
  return found->second;
}

PlanVerdict PlanJudge::judge(const PlanChoice& choice, const std::vector<ChainCut>& cuts,
                             std::size_t first_batch, std::size_t end_batch, Sizes sizes) {
  sizes_ = sizes;
  if (problem_.shares_cores(choice.devices()))
    return judge_by_events(to_plan(problem_, choice, cuts), first_batch, end_batch);
  config::Plan whole = to_plan(problem_, choice, cuts);
  const ReplicaProgram& lists = program_of(choice, whole);
  JudgedPlan plan(problem_, choice, std::move(whole), lists);
  std::swap(plan.load, load_);
  load_fixed(plan);
  const std::vector<const config::ModuleNode*> encoders = encoders_of(problem_);
  for (const schedule::PipelineModule& module : plan.whole.modules) {
    std::size_t chain = 0;
    for (std::size_t i = 0; i < encoders.size() && encoders[i]->name != module.name; ++i)
      if (choice.encoders[i]) ++chain;
    plan.chain.push_back(chain);
    plan.cuts.push_back(cuts[chain]);
  }
  PlanVerdict verdict;
  for (std::size_t batch = first_batch; batch < end_batch; ++batch) run_batch(plan, batch, verdict);
  std::swap(plan.load, load_);
  return verdict;
}

PlanVerdict PlanJudge::judge_by_events(config::Plan plan, std::size_t first_batch,
                                       std::size_t end_batch) {
  PlanVerdict verdict;
  if (first_batch == end_batch) return verdict;
  plan.batch.capacity_tokens = deals_.capacity(plan, end_batch);
  const simulate::Simulation simulation =
      simulate_on(problem_, plan, deals_, first_batch, end_batch);
  verdict.steps = simulation.steps;
  verdict.peak = simulation.fullest.memory.total();
  verdict.fullest = module_of(simulation, simulation.fullest.lane);
  evaluations_ += std::ssize(verdict.steps);
  return verdict;
}

const ReplicaProgram& PlanJudge::program_of(const PlanChoice& choice, const config::Plan& plan) {
  schedule::Pipeline lanes = schedule::pipeline_of(plan);
  // One lane stands for a colocated encoder on all stages, so it runs before and behind them.
  for (schedule::PipelineModule& module : lanes.modules) module.takes_turns = module.ahead = false;
  simulate::FoldedPipeline folded = simulate::fold_replicas(lanes, true);
  const std::string name = name_lists(folded.pipeline);
  if (program_ && program_->choice == choice && name_lists(program_->folded.pipeline) == name)
    return *program_;
  std::shared_ptr<const simulate::StepProgram>& lists = lists_[name];
  if (!lists)
    lists = std::make_shared<const simulate::StepProgram>(
        lower_schedule(schedule::schedule_passes(folded.pipeline), {}), schedule::Buffers{});
  program_ =
      std::make_unique<const ReplicaProgram>(problem_, choice, plan, std::move(folded), lists);
  return *program_;
}

const simulate::StepShapes& PlanJudge::shapes_of(const JudgedPlan& plan, std::size_t batch) {
  if (!dealt_.shapes.empty() && dealt_.choice == plan.choice && dealt_.batch == batch)
    return dealt_.shapes;
  std::vector<cost::Media> media;
  for (std::size_t module = 0; module < plan.whole.modules.size(); ++module)
    media.push_back(plan.costs.media(static_cast<int>(module)));
  simulate::StepShapes shapes =
      equal_samples_ && simulate::deals_evenly(plan.whole, problem_.global_samples())
          ? simulate::equal_microbatches(plan.whole, media, problem_.batches.front().front(),
                                         problem_.global_samples())
          : simulate::deal_samples(plan.whole, media, problem_.batches[batch],
                                   deals_.buckets(plan.plan, batch));
  dealt_ = {plan.choice, batch, std::move(shapes)};
  return dealt_.shapes;
}

void PlanJudge::load_module(JudgedPlan& plan, const simulate::StepShapes& shapes,
                            std::size_t index) {
  const bool is_backbone = plan.whole.modules[index].name == config::kBackboneModule;
  const bool is_colocated = plan.whole.modules[index].is_colocated();
  PricedChain& chain = chain_of(plan.choice, plan.chain[index]);
  const StageKinds stages = kinds_of(chain.costs, plan.cuts[index]);
  ModulePasses& load = plan.load.modules[index];
  load.stand_for = count_alike(shapes[index]);
  load.kind_of = stages.of_stage;
  load.passes.clear();
  const int microbatches = plan.whole.modules[index].passes_of(plan.whole.microbatches);
  load.first_of.resize(static_cast<std::size_t>(microbatches) * load.replicas());
  StagePasses known(chain.costs, stages, load.passes);
  std::size_t of = 0;  // the first replica that it represents
  for (std::size_t replica = 0; replica < load.replicas(); ++replica) {
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      const cost::MicrobatchShape& shape = shapes[index][of][microbatch];
      const Price& priced = price(chain, is_backbone, shape);
      load.first_of[microbatch * load.replicas() + replica] =
          known.first_of(priced.number, priced.units);
    }
    of += static_cast<std::size_t>(load.stand_for[replica]);
  }
  if (is_colocated) load = join_replicas(load, plan.whole.microbatches);
}

void PlanJudge::run_batch(JudgedPlan& plan, std::size_t batch, PlanVerdict& verdict) {
  const std::size_t modules = plan.whole.modules.size();
  plan.load.modules.resize(modules);
  const simulate::StepShapes& shapes = shapes_of(plan, batch);
  for (std::size_t index = 0; index < modules; ++index) load_module(plan, shapes, index);
  verdict.steps.push_back(std::max(plan.timer.run(plan.load, times_), port_time(plan)));
  ++evaluations_;
  const LanePeak peak = peak_of(plan);
  if (peak.bytes <= verdict.peak) return;
  verdict.peak = peak.bytes;
  verdict.fullest = plan.whole.modules[plan.program.map().at(peak.lane).module].name;
}

}  // namespace tributary::plan
