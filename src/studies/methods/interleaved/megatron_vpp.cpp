// Megatron's interleaved 1F1B: the layers of both modules as one chain, in several chunks a stage.

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/text.h"
#include "schedule/order/all_orders.h"
#include "studies/methods/interleaved/interleaved_batch.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

/// Degrees, microbatches and chunks: one plan of the space.
class ChunkedChain {
 public:
  ChunkedChain(BatchRunner& runner, const Degrees& degrees, std::int64_t rounds,
               std::int64_t chunks)
      : runner_(runner),
        degrees_(degrees),
        rounds_(rounds),
        chunks_(chunks),
        shares_(cut_uniformly(runner.problem().costs, degrees.pp * chunks)) {}

  /// Microbatches in flight on the first stage, counted as passes of all of its layers.
  [[nodiscard]] double depth() const {
    if (chunks_ == 1) return double(degrees_.pp);
    return double(schedule::interleaved_warm_up(shape(rounds_), 0) + 1) / double(chunks_);
  }
  [[nodiscard]] double run(std::size_t batch, double limit) {
    const std::int64_t multiple = chunks_ == 1 ? 1 : degrees_.pp;
    const InterleavedBatch steps(runner_, batch, degrees_, rounds_, multiple, Deal::kInOrder);
    const double min = steps.min_seconds(shares_);
    if (min >= limit) return min;
    runner_.add_busy(steps.busy());
    double slowest = 0;
    for (std::int64_t replica = 0; replica < degrees_.dp && slowest < limit; ++replica)
      slowest = std::max(slowest, pipeline(steps, replica) + steps.sync_seconds());
    return slowest;
  }

 private:
  [[nodiscard]] schedule::OrderShape shape(std::int64_t rounds) const {
    return {.stages = static_cast<int>(degrees_.pp),
            .microbatches = static_cast<int>(rounds),
            .chunks = static_cast<int>(chunks_)};
  }
  [[nodiscard]] double pipeline(const InterleavedBatch& steps, std::int64_t replica) {
    if (chunks_ == 1)
      return time_1f1b(static_cast<int>(degrees_.pp), steps.times(replica, shares_));
    if (!order_ || order_->shape().microbatches != steps.rounds())
      order_.emplace(shape(steps.rounds()));
    std::vector<std::int64_t> natural(static_cast<std::size_t>(steps.rounds()));
    std::iota(natural.begin(), natural.end(), 0);
    return 1e-9 * double(order_->makespan(steps.passes(replica, shares_), natural));
  }

  BatchRunner& runner_;
  Degrees degrees_;
  std::int64_t rounds_;
  std::int64_t chunks_;
  std::vector<StageShare> shares_;
  std::optional<InterleavedOrder> order_ = {};
};

}  // namespace

PipelineAnswer solve_megatron_vpp(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const std::int64_t layers = problem.costs.encoder.layers + problem.costs.backbone.layers;
  const std::vector<double> nothing(problem.batches.size());
  for_each_backbone(problem, [&](const Degrees& degrees, std::int64_t rounds) {
    if (!has_degree(problem.costs.encoder, degrees.tp)) return;
    const bool may_interleave =
        degrees.pp > 1 && (rounds % degrees.pp == 0 || problem.capacity_tokens > 0);
    const std::int64_t max = may_interleave ? std::max<std::int64_t>(layers / degrees.pp, 1) : 1;
    const double samples = double(problem.costs.global_samples) / double(rounds * degrees.dp);
    for (std::int64_t chunks = 1; chunks <= max; ++chunks) {
      ChunkedChain chain(runner, degrees, rounds, chunks);
      const double bytes = backbone_bytes(problem, degrees, rounds, chain.depth()) +
                           encoder_bytes(problem, degrees, chain.depth(), samples);
      const auto text = [&] {
        return str(to_text(degrees), ", ", microbatches_text(rounds), ", ", chunks,
                   chunks == 1 ? " chunk" : " chunks");
      };
      if (!best.admits(bytes, fullest_of_both(problem, degrees.pp), text)) continue;
      std::optional<TrainerForm> form;  // a single stage has no cut
      if (degrees.pp == 1) form = inline_form(degrees, rounds);
      best.race(
          {text(), form}, [&](std::size_t batch, double limit) { return chain.run(batch, limit); },
          nothing);
    }
  });
  return best.answer(form_of_backbone(problem) + ", tp of both modules' tables");
}

}  // namespace tributary::studies
