#include "plan/chains/estimate_step.h"

#include <algorithm>

#include "cost/collective_cost.h"
#include "cost/layer_cost.h"
#include "plan/chains/chain_bounds.h"
#include "schedule/order/all_orders.h"

namespace tributary::plan {
namespace {

using config::CollectiveOp;
using config::PipelineOrder;

/// Time of a message through all stages, over the links between them.
double hops_time(const PlanningProblem& problem, const config::MeshShape& mesh, double bytes) {
  if (mesh.pp == 1 || bytes <= 0) return 0;
  const std::int64_t stride = mesh.world() / mesh.pp;
  return static_cast<double>(mesh.pp - 1) *
         static_cast<double>(
             cost::collective_cost(problem.cluster, CollectiveOp::kSend,
                                   cost::group_of(2, stride, problem.cluster.devices_per_node()),
                                   {static_cast<std::int64_t>(bytes)})
                 .time.count);
}

double rate_between(const PlanningProblem& problem, std::int64_t distance) {
  const std::int64_t other = std::min(distance, problem.cluster.devices - 1);
  return problem.cluster.levels[cost::level_between(problem.cluster, 0, other)].bytes_per_s / 1e9;
}

/// How long the busiest port of a rank is taken for each microbatch. Every virtual stage sends
/// activations one way and gradients the other way.
double port_time(const PlanningProblem& problem, const PlanChoice& choice, double bytes) {
  const config::MeshShape& mesh = choice.backbone.mesh;
  if (mesh.pp == 1) return 0;
  const std::int64_t stride = mesh.world() / mesh.pp;
  const std::int64_t in_node =
      std::max<std::int64_t>(1, problem.cluster.devices_per_node() / stride);
  const auto chunks = static_cast<double>(choice.chunks);
  if (in_node >= mesh.pp) return 2 * chunks * bytes / rate_between(problem, stride);
  // Where stages share a node, only those at its ends have a neighbour in another node.
  const double neighbours = in_node == 1 && mesh.pp > 2 ? 2 : 1;
  return neighbours * chunks * bytes / rate_between(problem, stride * in_node);
}

/// The part of 1F1B's fill and drain that an order leaves.
double fill_share(PipelineOrder order, std::int64_t chunks, const ChainWork& work) {
  const double whole = std::max(1.0, work.total());
  switch (order) {
    case PipelineOrder::kInterleaved:
      return 1 / static_cast<double>(chunks);
    case PipelineOrder::kZbH1:
      return std::max(0.0, (work.total() - 2 * work.weight) / whole);
    case PipelineOrder::kZbV:
      return std::max(0.1, 0.5 * (work.total() - 3 * work.weight) / whole);
    case PipelineOrder::kVHalf:
      return 0.5;
    default:
      return 1;
  }
}

double gradient_bytes(const PlanningProblem& problem, const cost::CostSource& costs) {
  return problem.execution.reduce_dtype == config::ReduceDtype::kFloat32 ? 4 : costs.value_bytes();
}

/// How many chunks of microbatches the first stage keeps activations of.
double chunks_in_flight(const PlanChoice& choice) {
  const schedule::OrderTraits& traits = schedule::traits_of(choice.schedule);
  schedule::OrderShape shape{.stages = static_cast<int>(choice.backbone.mesh.pp),
                             .microbatches = static_cast<int>(choice.microbatches),
                             .chunks = static_cast<int>(choice.chunks)};
  return static_cast<double>(traits.in_flight(shape, 0));
}

/// Lower bound on the time of a microbatch from memory: the first stage keeps it until it has come
/// back from all later virtual stages, and has room for only chunks_in_flight().
double held_time(const PlanChoice& choice, double there_and_back, double hop) {
  const auto stages = static_cast<double>(choice.backbone.mesh.pp);
  const auto chunks = static_cast<double>(choice.chunks);
  if (choice.backbone.mesh.pp == 1) return 0;
  double held = there_and_back;
  if (choice.schedule == PipelineOrder::kInterleaved) {
    // Each chunk waits for those after it, and for all hops except those before its first stage.
    held = 0;
    for (double later = chunks; later > 0; --later)
      held += there_and_back * later / chunks + 2 * hop * (stages * later - 1);
  } else {
    // The last chunk of a V is on the first stage too, so it comes back at once.
    held += 2 * hop * chunks * (stages - 1) +
            (choice.chunks > 1 ? there_and_back / (stages * chunks) : 0);
  }
  return held / chunks_in_flight(choice);
}

/// The chain without the encoders inside it: shards_exposed() needs both, for the difference.
ChainForm without_inline(ChainForm form) {
  form.apart |= (std::uint64_t{1} << form.encoder) - 1;
  form.inside = {};
  return form;
}

}  // namespace

double StepEstimator::collective(CollectiveOp op, std::int64_t ranks, std::int64_t stride,
                                 double bytes) const {
  if (ranks <= 1 || bytes <= 0) return 0;
  return static_cast<double>(
      costs_
          ->collective(op, cost::group_of(ranks, stride, problem_.cluster.devices_per_node()),
                       {static_cast<std::int64_t>(bytes)})
          .count);
}

double StepEstimator::exposed(double transfer, double compute) const {
  const double slowed = transfer * (1 - 1 / std::max(1.0, costs_->overlap_slowdown()));
  return std::max(transfer - compute, slowed);
}

double StepEstimator::shards_exposed(const ChainForm& form, const config::MeshShape& mesh,
                                     std::int64_t microbatches, bool is_cut) const {
  const std::int64_t ranks = mesh.dp_shard * mesh.cp * mesh.ulysses;
  if (ranks == 1 || is_cut) return 0;
  const ChainForm alone = without_inline(form);
  const std::int64_t parts = mesh.dp_replicate * mesh.dp_shard * microbatches;
  const ChainWork all = tables_.work(form, parts);
  const ChainWork work = tables_.work(alone, parts);
  const ChainState& state = tables_.state(alone);
  const double inside = tables_.state(form).parameters - state.parameters;
  const double trained = tables_.state(form).gradients > state.gradients ? inside : 0;
  const double wider = gradient_bytes(problem_, *costs_) / costs_->value_bytes();
  const auto gather = [&](double bytes) {
    return collective(CollectiveOp::kAllGather, ranks, mesh.tp, bytes);
  };
  const auto reduce = [&](double bytes) {
    return collective(CollectiveOp::kReduceScatter, ranks, mesh.tp, wider * bytes);
  };
  const auto blocks = static_cast<double>(tables_.units(form.encoder) - 2);
  const double block = state.block_parameters;
  const double ends = std::max(0.0, state.parameters - blocks * block) / 2;
  // Nothing hides the gathers of the ends: before the first layer, and before the loss.
  return exposed(gather(inside), work.scale * (all.forward - work.forward)) +
         exposed(gather(inside) + reduce(trained), work.scale * (all.backward - work.backward)) +
         blocks * (exposed(gather(block), work.scale * work.block_forward) +
                   exposed(gather(block) + reduce(block), work.scale * work.block_backward)) +
         2 * gather(ends) + 2 * reduce(ends);
}

double StepEstimator::trained_parameters(const ChainForm& form) {
  const ChainState& state = tables_.state(form);
  if (problem_.frozen.empty() || form.encoder < encoders_of(problem_).size())
    return state.parameters;
  const ChainForm alone = without_inline(form);
  const ChainState& rest = tables_.state(alone);
  return (rest.gradients > 0 ? rest.parameters : 0) +
         (state.gradients > rest.gradients ? state.parameters - rest.parameters : 0);
}

double StepEstimator::tail_of(const ChainForm& form, const config::MeshShape& mesh, bool is_cut) {
  const ChainState& state = tables_.state(form);
  if (state.gradients == 0) return static_cast<double>(costs_->min_step().count);
  const std::int64_t shards = mesh.dp_shard * mesh.cp * mesh.ulysses;
  const double bytes = trained_parameters(form) * gradient_bytes(problem_, *costs_) /
                       costs_->value_bytes() / static_cast<double>(mesh.pp);
  // Where each microbatch reduces its gradients, only the last reduction is left at the end.
  const double left = is_cut ? bytes : std::min(bytes, state.block_parameters);
  return collective(CollectiveOp::kReduceScatter, shards, mesh.tp, left) +
         collective(CollectiveOp::kAllReduce, mesh.dp_replicate, form.ranks() * mesh.dp_shard,
                    bytes / static_cast<double>(shards)) +
         state.update / static_cast<double>(mesh.pp * shards) +
         static_cast<double>(costs_->min_step().count);
}

void StepEstimator::set_memory(const ChainForm& form, const config::MeshShape& mesh,
                               const ChainWork& work, const Depth& depth, StepEstimate& estimate) {
  // One of the kept microbatches may hold the largest sample.
  const double extra =
      std::max(0.0, tables_.largest_sample(form) / std::max(1.0, depth.samples) - 1);
  const auto max = static_cast<double>(problem_.memory().count);
  const auto note = [&](double held, double kept, double in_flight) {
    const double all_kept = (in_flight + extra) * work.scale * kept;
    estimate.held_share = std::max(estimate.held_share, held / max);
    estimate.memory_share = std::max(estimate.memory_share, (held + all_kept) / max);
  };
  if (mesh.pp == 1) {
    const cost::StageState& state = tables_.state_on_one_stage(form, mesh.dp_shard);
    const Bytes held = state.process + state.parameters + state.gradients + state.optimizer;
    return note(static_cast<double>((held + state.gathered).count), work.kept, depth.first);
  }
  const ChainState& state = tables_.state(form);
  const auto stages = static_cast<double>(mesh.pp);
  const auto middle = static_cast<double>(tables_.units(form.encoder) - 2);
  // The blocks beside an end: as many as fit in what its time leaves of the mean stage.
  const double all = state.parameters + state.gradients + state.optimizer;
  const double slowest = std::max(work.total() / stages, std::max(work.first_time, work.last_time));
  const double block_time =
      std::max(1.0, (work.total() - work.first_time - work.last_time) / std::max(1.0, middle));
  const double block_state = (all - state.first - state.last) / std::max(1.0, middle);
  const double block_kept = (work.kept - work.first_kept - work.last_kept) / std::max(1.0, middle);
  // An approximation for experts: as if every rank had all of them.
  ChainForm dense = form;
  dense.ep = 1;
  const cost::StageRules rules{.source = costs_, .execution = problem_.execution, .is_cut = true};
  const double times = static_cast<double>(mesh.dp_shard) / static_cast<double>(form.shards());
  const double part = split_state(rules, dense, state).of_rank(times) / std::max(1.0, all);
  const auto note_end = [&](double time, double own, double kept, double in_flight) {
    const double blocks = std::clamp((slowest - time) / block_time, 0.0, middle);
    note(state.process + part * (own + blocks * block_state), kept + blocks * block_kept,
         in_flight);
  };
  note_end(work.first_time, state.first, work.first_kept, depth.first);
  note_end(work.last_time, state.last, work.last_kept, static_cast<double>(depth.chunks));
}

StepEstimate StepEstimator::backbone(const ChainForm& form, const PlanChoice& choice) {
  const config::MeshShape& mesh = choice.backbone.mesh;
  ChainForm own = form;
  own.recompute = choice.backbone.recompute;
  own.inside = choice.inside;
  const ChainWork work = tables_.work(own, mesh.dp_replicate * mesh.dp_shard * choice.microbatches);
  StepEstimate estimate{.rounds = static_cast<double>(choice.microbatches), .stages = mesh.pp};
  const bool is_cut = form.apart != 0 || choice.is_cut();
  set_memory(own, mesh, work,
             {.first = chunks_in_flight(choice) / static_cast<double>(choice.chunks),
              .samples = static_cast<double>(problem_.global_samples()) /
                         static_cast<double>(choice.backbone.replicas() * choice.microbatches),
              .chunks = choice.chunks > 1 ? 2 : 1},
             estimate);
  if (!estimate.may_fit()) return estimate;
  const std::int64_t virtual_stages = mesh.pp * choice.chunks;
  const double gathers = shards_exposed(own, mesh, choice.microbatches, is_cut) +
                         tables_.state(own).each_stage * static_cast<double>(virtual_stages);
  const double slowest = work.scale * tables_.slowest_stage(own, work, virtual_stages) +
                         gathers / static_cast<double>(virtual_stages);
  const double whole = work.scale * work.total() + gathers;
  // Several chunks on a rank even out what single virtual stages cannot.
  estimate.lane =
      std::max(
          whole / static_cast<double>(mesh.pp),
          choice.chunks == 1 ? slowest : slowest * (static_cast<double>(choice.chunks) - 0.5)) *
      problem_.threads_per_core(problem_.measured ? problem_.devices : choice.devices());
  estimate.lane = std::max(estimate.lane, port_time(problem_, choice, work.scale * work.boundary));
  const double hops = hops_time(problem_, mesh, work.scale * work.boundary);
  const bool splits = schedule::traits_of(choice.schedule).splits_backward;
  const double there_and_back = whole - (splits ? work.scale * work.weight : 0);
  estimate.lane = std::max(
      estimate.lane, held_time(choice, there_and_back,
                               hops / static_cast<double>(std::max<std::int64_t>(1, mesh.pp - 1))));
  // The largest microbatch also goes through all stages.
  const double largest = tables_.largest_samples(own).path * work.total() / work.path;
  estimate.fill = std::max(0.0, std::max(whole, largest) - estimate.lane) *
                      fill_share(choice.schedule, choice.chunks, work) +
                  2 * hops;
  estimate.tail = tail_of(own, mesh, is_cut);
  return estimate;
}

StepEstimate StepEstimator::encoder(const ChainForm& form, const ChainChoice& own,
                                    std::int64_t microbatches, std::int64_t stages_behind) {
  StepEstimate estimate = encoder_rounds(form, own, microbatches, stages_behind);
  estimate.tail = tail_of(form, own.mesh, /*is_cut=*/true);
  return estimate;
}

StepEstimate StepEstimator::colocated(const ChainForm& form, const ChainChoice& own,
                                      const PlanChoice& choice) {
  const auto passes = static_cast<double>(own.passes);
  const ChainWork work = tables_.work(form, own.replicas() * own.passes);
  StepEstimate estimate;
  const bool is_frozen = problem_.is_frozen(encoders_of(problem_)[form.encoder]->name);
  const double largest_sample = tables_.largest_sample(form);
  // A replica keeps everything until the backbone is done, in however many passes it was encoded.
  const double samples =
      static_cast<double>(problem_.global_samples()) / static_cast<double>(own.replicas());
  set_memory(form, own.mesh, work,
             {.first = passes * std::max(1.0, largest_sample / samples), .samples = largest_sample},
             estimate);
  estimate.peak_share = std::max(1.0, largest_sample * passes / samples) * work.scale * work.peak /
                        static_cast<double>(problem_.memory().count);
  // The first stage receives the features of the whole batch at once.
  const double features =
      passes * work.scale * work.boundary * static_cast<double>(choice.backbone.mesh.pp);
  // The backbone's share already counts what each process holds.
  estimate.memory_share +=
      (features - tables_.state(form).process) / static_cast<double>(problem_.memory().count);
  const double cores = problem_.threads_per_core(choice.backbone.devices());
  // All wait for the slowest replica, which has the largest sample.
  const double mean = passes * work.scale * work.total();
  const double largest = tables_.largest_samples(form).path * work.total() / work.path;
  const double both_ways = std::max(mean, largest) * cores;
  const double backward = both_ways * work.backward / work.total();
  const double forward = both_ways - backward + passes * tables_.state(form).each_stage * cores;
  const bool stays =
      own.replicas() == 1 && choice.backbone.replicas() == 1 && choice.backbone.mesh.pp == 1;
  const double travel =
      stays ? 0 : features / rate_between(problem_, choice.backbone.devices() - 1);
  // Features of a pass travel during later passes; gradients come back with each microbatch.
  estimate.fill = std::max(forward + travel / passes, forward / passes + travel) + backward;
  if (!is_frozen) estimate.fill += travel / static_cast<double>(choice.microbatches);
  estimate.tail =
      tail_of(form, own.mesh, /*is_cut=*/true) - static_cast<double>(costs_->min_step().count);
  return estimate;
}

StepEstimate StepEstimator::encoder_rounds(const ChainForm& form, const ChainChoice& own,
                                           std::int64_t microbatches, std::int64_t stages_behind) {
  const config::MeshShape& mesh = own.mesh;
  const ChainWork work = tables_.work(form, own.replicas() * microbatches);
  StepEstimate estimate{.rounds = static_cast<double>(microbatches), .stages = mesh.pp};
  const double depth = static_cast<double>(std::min(microbatches, mesh.pp + stages_behind));
  set_memory(form, mesh, work,
             {.first = depth,
              .samples = static_cast<double>(problem_.global_samples()) /
                         static_cast<double>(own.replicas() * microbatches),
              .chunks = static_cast<std::int64_t>(depth)},
             estimate);
  const double each_stage = tables_.state(form).each_stage;
  estimate.lane = work.scale * tables_.slowest_stage(form, work, mesh.pp) + each_stage;
  // Features leave the last stage for ranks that are probably in another node.
  estimate.lane = std::max(
      estimate.lane, work.scale * work.boundary / rate_between(problem_, problem_.devices - 1));
  estimate.fill = work.scale * work.total() + each_stage * static_cast<double>(mesh.pp);
  return estimate;
}

StepEstimate combined(const StepEstimate& backbone, const StepEstimate& encoder) {
  StepEstimate both = backbone;
  both.lane = std::max(backbone.lane, encoder.lane);
  // A microbatch goes through both chains once, of which one lane is counted with the rounds.
  both.fill = std::max(0.0, backbone.fill + backbone.lane + encoder.fill - both.lane);
  both.tail = std::max(backbone.tail, encoder.tail);
  both.memory_share = std::max(backbone.memory_share, encoder.memory_share);
  both.stages = backbone.stages + encoder.stages;
  return both;
}

StepEstimate in_turns(const StepEstimate& backbone, const StepEstimate& encoder) {
  StepEstimate both = backbone;
  both.fill += encoder.fill;
  both.tail += encoder.tail;
  // Passes of the encoder and microbatches of the backbone never run at the same time.
  both.memory_share = std::max(backbone.memory_share, backbone.held_share + encoder.peak_share) +
                      encoder.memory_share;
  return both;
}

}  // namespace tributary::plan
