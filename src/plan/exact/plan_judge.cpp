#include "plan/exact/plan_judge.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "plan/exact/simulate_on.h"
#include "schedule/pipeline/plan_pipeline.h"

namespace tributary::plan {

using schedule::Op;

namespace {

/// Rounds to 1 part in 2^bits, so that sizes that hardly differ are one.
std::int64_t rounded(double size, int bits) {
  if (size <= 0) return 0;
  const double step = std::exp2(std::max(0.0, std::floor(std::log2(size)) - bits));
  return std::llround(std::round(size / step) * step);
}

/// Ranks that have a core for each of their threads do not share any.
config::Cluster without_cores(config::Cluster cluster) {
  cluster.cores = 0;
  return cluster;
}

/// What the passes of a microbatch keep.
struct PassBytes {
  std::int64_t kept = 0;
  std::int64_t after = 0;  // from the input gradient to the weight gradient
  std::int64_t peak = 0;   // more during backward
  std::int64_t ahead = 0;  // more during forward
};

}  // namespace

struct JudgedPlan {
  JudgedPlan(const PlanningProblem& problem, const PlanChoice& chosen, config::Plan of)
      : plan(std::move(of)),
        whole(schedule::pipeline_of(plan)),
        costs(costs_on(problem, plan)),
        folded(fold_replicas(whole, true)),
        program(lower_schedule(schedule::schedule_passes(folded.pipeline), {}), {}),
        network(network_of(plan, without_cores(problem.cluster), program, folded.folding,
                           {.share_links = false})),
        ports(network_of(plan, without_cores(problem.cluster), program, folded.folding, {})),
        equal_replicas(has_equal_samples(problem) && deals_evenly(whole, problem.global_samples())),
        timer(
            program, network,
            equal_replicas ? std::vector<int>(whole.modules.size(), 1) : folded.folding.stands_for),
        choice(chosen) {}

  config::Plan plan;
  schedule::Pipeline whole;
  LayerStageCosts costs;
  FoldedPipeline folded;
  StepProgram program;
  Network network;
  Network ports;        // with links that messages share
  bool equal_replicas;  // one of each module is run for all
  ReplicaTimer timer;
  const PlanChoice& choice;
  std::vector<ChainCut> cuts = {};      // [modules of the pipeline]
  std::vector<std::size_t> chain = {};  // [modules of the pipeline] index of the chain
  ReplicaLoad load = {};
  std::vector<std::vector<PassBytes>> bytes = {};  // as load.passes
};

namespace {

/// Most that a replica's rank of a lane keeps of activations: passes of a lane do not overlap.
std::int64_t most_kept(const JudgedPlan& plan, int lane, int replica) {
  const StepProgram& program = plan.program;
  const schedule::Lane of = program.map().at(lane);
  const schedule::PipelineModule& module = program.pipeline().modules[of.module];
  std::vector<bool> has_backward;  // [chunks]
  std::vector<bool> has_weights;
  for (int chunk = 0; chunk < module.chunks; ++chunk) {
    const int virtual_stage = program.map().virtual_stage(of.module, of.stage, chunk);
    has_backward.push_back(program.map().has_backward(of.module, virtual_stage));
    has_weights.push_back(module.has_weights_of(virtual_stage));
  }
  const std::size_t base = static_cast<std::size_t>(replica) * plan.timer.replica_size(of.module);
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (int action = program.first_action(lane); action < program.first_action(lane + 1); ++action) {
    if (program.kind(action) != StepKind::kPass) continue;
    const schedule::Action& pass = program.action(action);
    const PassBytes& bytes = plan.bytes[of.module][base + plan.timer.of_action(action).place];
    switch (pass.op) {
      case Op::kForward:
        most = std::max(most, held + bytes.kept + bytes.ahead);
        if (has_backward[pass.chunk]) held += bytes.kept;
        break;
      case Op::kBackward:
        most = std::max(most, held + bytes.peak);
        held -= bytes.kept;
        break;
      case Op::kBackwardInput:
        most = std::max(most, held + bytes.peak);
        held -= bytes.kept;
        if (has_weights[pass.chunk]) held += bytes.after;
        most = std::max(most, held);
        break;
      default:
        held -= bytes.after;
        break;
    }
  }
  return most;
}

/// What a lane holds whatever the microbatches are.
std::int64_t state_of_lane(const JudgedPlan& plan, int lane) {
  const schedule::Lane of = plan.program.map().at(lane);
  std::int64_t held = 0;
  std::int64_t gathered = 0;
  std::int64_t process = 0;
  for (int chunk = 0; chunk < plan.program.pipeline().modules[of.module].chunks; ++chunk) {
    const StageState state =
        plan.costs.state(of.module, plan.program.map().virtual_stage(of.module, of.stage, chunk));
    held += (state.parameters + state.gradients + state.optimizer).count;
    gathered = std::max(gathered, state.gathered.count);
    process = std::max(process, state.process.count);
  }
  return held + gathered + process;
}

/// Buffers of messages between stages at both ends, the largest of any replica.
void add_buffers(const JudgedPlan& plan, std::vector<std::int64_t>& held) {
  const StepProgram& program = plan.program;
  for (const Channel& channel : program.channels()) {
    if (channel.messages == 0 || channel.edge >= 0) continue;
    std::int64_t largest = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const std::vector<PassCosts>& passes = plan.load.passes[of.module];
      for (std::size_t at = of.place; at < passes.size(); at += plan.timer.replica_size(of.module))
        largest = std::max(largest, passes[at].boundary);
    }
    const std::int64_t bytes = largest * std::min(channel.messages, program.send_buffers());
    held[channel.from] += bytes;
    held[channel.to] += bytes;
  }
}

void find_peak(const JudgedPlan& plan, PlanVerdict& verdict) {
  const StepProgram& program = plan.program;
  std::vector<std::int64_t> held;
  for (int lane = 0; lane < program.lanes(); ++lane) held.push_back(state_of_lane(plan, lane));
  add_buffers(plan, held);
  for (int lane = 0; lane < program.lanes(); ++lane) {
    const int module = program.map().at(lane).module;
    std::int64_t most = 0;
    for (int replica = 0; replica < plan.timer.replicas()[module]; ++replica)
      most = std::max(most, most_kept(plan, lane, replica));
    if (held[lane] + most <= verdict.peak.count) continue;
    verdict.peak = {held[lane] + most};
    verdict.fullest = program.pipeline().modules[module].name;
  }
}

/// How long the busiest port of a rank is taken: no order of the messages ends before.
Nanoseconds port_time(const JudgedPlan& plan) {
  const StepProgram& program = plan.program;
  std::vector<double> taken(plan.ports.bytes_per_ns.size());
  for (const Channel& channel : program.channels()) {
    const Route& route = plan.ports.routes[&channel - program.channels().data()];
    double bytes = 0;
    for (int i = 0; i < channel.messages; ++i) {
      const ReplicaTimer::MessagePlace& of = plan.timer.of_message(channel.first_message + i);
      const std::vector<PassCosts>& passes = plan.load.passes[of.module];
      std::int64_t all = 0;
      for (std::size_t at = of.place; at < passes.size(); at += plan.timer.replica_size(of.module))
        all += passes[at].boundary;
      bytes += static_cast<double>(all) / plan.timer.replicas()[of.module];
    }
    for (const LinkUse& use : route.links) taken[use.link] += use.weight * bytes;
  }
  double longest = 0;
  for (std::size_t link = 0; link < taken.size(); ++link)
    longest = std::max(longest, taken[link] / plan.ports.bytes_per_ns[link]);
  return {static_cast<std::int64_t>(longest)};
}

/// Reductions and optimizer steps do not depend on the microbatches.
void load_fixed(JudgedPlan& plan) {
  const StepProgram& program = plan.program;
  plan.load.fixed.resize(static_cast<std::size_t>(program.actions()));
  for (int action = 0; action < program.actions(); ++action) {
    const schedule::Lane of = program.map().at(program.lane_of(action));
    const auto state = [&](int chunk) {
      return plan.costs.state(of.module, program.map().virtual_stage(of.module, of.stage, chunk));
    };
    if (program.kind(action) == StepKind::kReduce)
      plan.load.fixed[action] = state(program.action(action).chunk).reduction;
    if (program.kind(action) != StepKind::kOptimize) continue;
    Nanoseconds host;
    for (int chunk = 0; chunk < program.pipeline().modules[of.module].chunks; ++chunk) {
      plan.load.fixed[action] += state(chunk).optimizer_step;
      host = std::max(host, state(chunk).host_step);
    }
    plan.load.fixed[action] += host;
  }
}

}  // namespace

Nanoseconds PlanVerdict::mean() const {
  std::int64_t sum = 0;
  for (const Nanoseconds step : steps) sum += step.count;
  return {sum / std::max<std::int64_t>(1, std::ssize(steps))};
}

PlanJudge::PlanJudge(const PlanningProblem& problem, BatchDeals& deals)
    : problem_(problem), deals_(deals) {}
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
  // What is inline has the recompute of the backbone; encoders do not depend on it.
  ChainKey key{chain,
               apart,
               choice.is_cut(),
               {mesh.dp_replicate, mesh.dp_shard, mesh.cp, mesh.ulysses, mesh.tp, mesh.ep,
                static_cast<std::int64_t>(of->recompute)}};
  std::unique_ptr<PricedChain>& found = chains_[std::move(key)];
  if (!found)
    found = std::make_unique<PricedChain>(
        PricedChain{ChainCosts(problem_, choice, chain, choice.is_cut()), {}});
  return *found;
}

const ChainCosts& PlanJudge::costs_of(const PlanChoice& choice, std::size_t chain) {
  return chain_of(choice, chain).costs;
}

const std::vector<StageCost>& PlanJudge::price(PricedChain& chain, bool has_tokens,
                                               bool has_patches, const MicrobatchShape& shape) {
  constexpr int kBits = 8;
  constexpr int kSquareBits = 5;
  SizeKey key{};
  if (has_tokens) {
    key.tokens = rounded(shape.backbone.tokens, kBits);
    key.squared = rounded(shape.backbone.squared_tokens, kSquareBits);
  }
  if (has_patches) {
    key.patches = rounded(shape.encoder.tokens, kBits);
    key.squared_patches = rounded(shape.encoder.squared_tokens, kSquareBits);
  }
  const auto [found, is_new] = chain.priced.try_emplace(key);
  if (is_new) {
    MicrobatchShape at = shape;
    at.backbone.tokens = static_cast<double>(key.tokens);
    at.backbone.squared_tokens = static_cast<double>(key.squared);
    at.encoder.tokens = static_cast<double>(key.patches);
    at.encoder.squared_tokens = static_cast<double>(key.squared_patches);
    for (std::size_t unit = 0; unit < chain.costs.classes(); ++unit)
      found->second.push_back(chain.costs.cost(unit, at));
  }
  return found->second;
}

PlanVerdict PlanJudge::judge(const PlanChoice& choice, const std::vector<ChainCut>& cuts,
                             std::size_t first_batch, std::size_t end_batch) {
  if (problem_.shares_cores(choice.devices()))
    return judge_by_events(to_plan(problem_, choice, cuts), first_batch, end_batch);
  JudgedPlan plan(problem_, choice, to_plan(problem_, choice, cuts));
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
  return verdict;
}

PlanVerdict PlanJudge::judge_by_events(config::Plan plan, std::size_t first_batch,
                                       std::size_t end_batch) {
  PlanVerdict verdict;
  if (first_batch == end_batch) return verdict;
  if (problem_.space.runnable) plan.batch.capacity_tokens = deals_.capacity(plan);
  const Simulation simulation = simulate_on(problem_, plan, first_batch, end_batch);
  verdict.steps = simulation.steps;
  const auto [lane, bytes] = fullest_lane(simulation);
  verdict.peak = bytes;
  verdict.fullest = module_of(simulation, lane);
  const schedule::Pipeline pipeline = schedule::pipeline_of(plan);
  for (std::size_t batch = first_batch; batch < end_batch; ++batch)
    for (const auto& module :
         deal_samples(pipeline, problem_.batches[batch], deals_.buckets(plan, batch)))
      for (const std::vector<MicrobatchShape>& replica : module)
        for (const MicrobatchShape& shape : replica)
          verdict.longest =
              std::max(verdict.longest, Tokens{static_cast<std::int64_t>(shape.backbone.tokens)});
  evaluations_ += std::ssize(verdict.steps);
  return verdict;
}

void PlanJudge::run_batch(JudgedPlan& plan, std::size_t batch, PlanVerdict& verdict) {
  const StepShapes shapes =
      plan.equal_replicas
          ? equal_microbatches(plan.whole, problem_.batches.front().front(),
                               problem_.global_samples())
          : deal_samples(plan.whole, problem_.batches[batch], deals_.buckets(plan.plan, batch));
  // What has no ranks of its own works on patches inside the backbone.
  const bool has_inline = plan.plan.modules.size() > plan.whole.modules.size();
  plan.load.passes.resize(plan.whole.modules.size());
  plan.bytes.resize(plan.whole.modules.size());
  for (std::size_t index = 0; index < plan.whole.modules.size(); ++index) {
    const schedule::PipelineModule& module = plan.whole.modules[index];
    const bool is_backbone = module.name == "backbone";
    PricedChain& chain = chain_of(plan.choice, plan.chain[index]);
    const ChainCut& cut = plan.cuts[index];
    std::vector<std::vector<std::int64_t>> counts;
    for (std::size_t stage = 0; stage + 1 < cut.size(); ++stage)
      counts.push_back(chain.costs.count(cut[stage], cut[stage + 1]));
    std::vector<PassCosts>& passes = plan.load.passes[index];
    std::vector<PassBytes>& bytes = plan.bytes[index];
    const int replicas = plan.timer.replicas()[index];
    passes.resize(static_cast<std::size_t>(replicas) *
                  plan.timer.replica_size(static_cast<int>(index)));
    bytes.resize(passes.size());
    for (int replica = 0; replica < replicas; ++replica) {
      for (int microbatch = 0; microbatch < plan.whole.microbatches; ++microbatch) {
        const MicrobatchShape& shape = shapes[index][replica][microbatch];
        if (is_backbone)
          verdict.longest.count =
              std::max(verdict.longest.count, static_cast<std::int64_t>(shape.backbone.tokens));
        const std::vector<StageCost>& priced =
            price(chain, is_backbone, !is_backbone || has_inline, shape);
        for (std::size_t stage = 0; stage < counts.size(); ++stage) {
          const StageCost cost = cost_of_stage(chain.costs, priced, counts[stage],
                                               chain.costs.class_of(cut[stage + 1] - 1));
          const std::size_t at = plan.timer.place(static_cast<int>(index), replica,
                                                  static_cast<int>(stage), microbatch);
          passes[at] = {.forward = (cost.forward + cost.forward_exposed).count,
                        .input_gradient = (cost.input_gradient + cost.gradient_exposed).count,
                        .weight_gradient = cost.weight_gradient.count,
                        .boundary = cost.boundary.count};
          bytes[at] = {cost.kept.count, cost.kept_after_input_gradient.count,
                       cost.backward_peak.count, cost.forward_peak.count};
        }
      }
    }
  }
  verdict.steps.push_back(std::max(plan.timer.run(plan.load), port_time(plan)));
  ++evaluations_;
  find_peak(plan, verdict);
}

}  // namespace tributary::plan
