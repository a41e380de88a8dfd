// All modules on all ranks with sharded parameters: the ranks synchronise at every layer.

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

class ShardedStep {
 public:
  ShardedStep(BatchRunner& runner, Deal how) : runner_(runner), how_(how) {}

  /// The rounds of one batch, each rank with its own samples.
  [[nodiscard]] double run(std::size_t batch, std::int64_t rounds) {
    const TrainingProblem& problem = runner_.problem();
    const std::vector<SampleWork>& samples = problem.batches[batch];
    double sum = 0;
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::size_t first = samples.size() * round / rounds;
      const std::size_t end = samples.size() * (round + 1) / rounds;
      std::vector<double> tiles;
      std::vector<double> tokens;
      for (std::size_t sample = first; sample < end; ++sample) {
        tiles.push_back(samples[sample].tiles);
        tokens.push_back(samples[sample].tokens);
      }
      const std::int64_t ranks = problem.costs.devices;
      const double moved = std::accumulate(tiles.begin(), tiles.end(), 0.0);
      sum += module_round(problem.costs.encoder, deal_out(tiles, ranks, how_)) +
             module_round(problem.costs.backbone, deal_out(tokens, ranks, how_));
      // When samples are dispatched again between phases, their features move there and back.
      if (how_ == Deal::kBalanced) sum += 2 * runner_.feature_seconds(moved, ranks);
    }
    return sum;
  }

 private:
  /// Each layer waits for the slowest rank, or for the parameters of the next layer.
  [[nodiscard]] double module_round(const ModuleCosts& module, const std::vector<double>& shapes) {
    for (const double mine : shapes) runner_.add_busy(runner_.module_seconds(module, 1, mine));
    const double shape = *std::max_element(shapes.begin(), shapes.end());
    const TrainingProblem& problem = runner_.problem();
    const auto layers = static_cast<double>(module.layers);
    const auto ranks = static_cast<double>(problem.costs.devices);
    const auto moved = [&](double share) {  // seconds to gather or reduce a layer
      return costs_at(module, 1).state_bytes * share / layers * (ranks - 1) / ranks /
             runner_.ring_rate(1, problem.costs.devices);
    };
    const double gather = moved(module.parameter_share);
    const double reduce = moved(module.gradient_share);
    const PassSeconds times = BatchRunner::split(module, runner_.module_seconds(module, 1, shape));
    // A module without backward has no second gather.
    const double again = module.forward_share < 1 ? gather + reduce : 0;
    // Nothing hides the first gather and the last reduction.
    return layers * (std::max(times.forward / layers, gather) +
                     std::max(times.backward / layers, again)) +
           gather + reduce;
  }

  BatchRunner& runner_;
  Deal how_;
};

void offer_sharded(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best, Deal how) {
  const Problem3d& costs = problem.costs;
  ShardedStep step(runner, how);
  for (const std::int64_t rounds : rounds_of(problem, costs.devices)) {
    const double samples = double(costs.global_samples) / double(rounds * costs.devices);
    const auto bytes = [&](const ModuleCosts& module) {
      const DegreeCosts& degree = costs_at(module, 1);
      const double state = degree.state_bytes;
      const double unsharded = device_bytes(module, {1, 1, 1}, 1, samples * module.sample_shape);
      return unsharded - state + state / double(costs.devices) +
             2 * state * module.parameter_share / double(module.layers);
    };
    const std::string text = str("sharded, dp ", costs.devices, ", ", microbatches_text(rounds));
    if (!best.admits(bytes(costs.encoder) + bytes(costs.backbone), fullest_of_both(problem, 1),
                     [&] { return text; }))
      continue;
    std::optional<TrainerForm> form;  // no plan dispatches samples again after encoding
    if (how == Deal::kInOrder) {
      form = inline_form({1, 1, costs.devices}, rounds);
      form->shards = true;
    }
    best.offer({text, form}, [&](std::size_t batch) { return step.run(batch, rounds); });
  }
}

PipelineAnswer solve_sharded(const TrainingProblem& problem, Deal how) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  if (!has_degree(problem.costs.encoder, 1) || !has_degree(problem.costs.backbone, 1))
    return best.answer("tp 1, which is not in the tables of both modules");
  offer_sharded(problem, runner, best, how);
  return best.answer("at least a sample for each device");
}

}  // namespace

void offer_balanced_shards(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  if (!has_degree(problem.costs.encoder, 1) || !has_degree(problem.costs.backbone, 1)) return;
  offer_sharded(problem, runner, best, Deal::kBalanced);
}

PipelineAnswer solve_fsdp(const TrainingProblem& problem) {
  return solve_sharded(problem, Deal::kInOrder);
}

PipelineAnswer solve_orchmllm(const TrainingProblem& problem) {
  return solve_sharded(problem, Deal::kBalanced);
}

}  // namespace tributary::studies
