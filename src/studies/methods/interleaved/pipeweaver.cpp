// PipeWeaver, also known as DIP: segments of encoder and backbone alternate on the same ranks, with
// the lists and the order of microbatches that suit each batch best.

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "studies/methods/interleaved/interleaved_batch.h"
#include "studies/methods/plan_space.h"
#include "studies/methods/round_orders.h"

namespace tributary::studies {
namespace {

/// Chunks of a stage, encoder first.
struct Segments {
  std::int64_t encoder = 1;
  std::int64_t backbone = 1;
};

/// One plan of the space: what all batches share.
class SegmentedChain {
 public:
  SegmentedChain(BatchRunner& runner, const Degrees& degrees, std::int64_t rounds,
                 const Segments& segments, Deal how)
      : runner_(runner),
        degrees_(degrees),
        rounds_(rounds),
        segments_(segments),
        how_(how),
        shares_(cut_by_module(runner.problem().costs, degrees.pp * segments.encoder,
                              degrees.pp * segments.backbone)) {
    add_lists((rounds + degrees.pp - 1) / degrees.pp * degrees.pp);
  }

  /// Bytes of the first stage with the leaner lists.
  [[nodiscard]] double bytes() const {
    double min = std::numeric_limits<double>::infinity();
    for (const InterleavedOrder& lists : lists_) min = std::min(min, bytes(lists));
    return min;
  }
  [[nodiscard]] std::string describe() const {
    return str(to_text(degrees_), ", ", microbatches_text(rounds_), ", ", segments_.encoder,
               " encoder and ", segments_.backbone, " backbone segments");
  }

  /// The slowest replica, each with the best lists and order found; `limit` as in BestPlan::race.
  [[nodiscard]] double run(std::size_t batch, double limit) {
    const InterleavedBatch steps(runner_, batch, degrees_, rounds_, degrees_.pp, how_);
    const double min = steps.min_seconds(shares_);
    if (min >= limit) return min;
    if (lists_.front().shape().microbatches != steps.rounds()) add_lists(steps.rounds());
    runner_.add_busy(steps.busy());
    std::vector<Replica> replicas;
    for (std::int64_t replica = 0; replica < steps.replicas(); ++replica)
      replicas.push_back(start(steps, replica));
    return 1e-9 * double(polish(replicas)) + steps.sync_seconds();
  }

 private:
  struct Replica {
    std::vector<std::int64_t> passes = {};
    std::int64_t bound = 0;  // work of its fullest stage
    std::int64_t time = std::numeric_limits<std::int64_t>::max();
    InterleavedOrder* lists = nullptr;
    RoundOrder order = {};
  };

  /// Adds lists with groups of as many microbatches as stages, and of all, where memory allows.
  void add_lists(std::int64_t rounds) {
    lists_.clear();
    for (const std::int64_t group : {degrees_.pp, rounds}) {
      if (group == rounds && !lists_.empty() && rounds == degrees_.pp) break;
      InterleavedOrder lists({.stages = static_cast<int>(degrees_.pp),
                              .microbatches = static_cast<int>(rounds),
                              .chunks = static_cast<int>(segments_.encoder + segments_.backbone),
                              .group = static_cast<int>(group)});
      if (lists_.empty() || bytes(lists) <= runner_.problem().costs.memory_bytes)
        lists_.push_back(std::move(lists));
    }
  }

  [[nodiscard]] double bytes(const InterleavedOrder& lists) const {
    const Problem3d& costs = runner_.problem().costs;
    const double samples = double(costs.global_samples) / double(rounds_ * degrees_.dp);
    std::vector<double> of_chunks;
    const auto add = [&](const ModuleCosts& module, std::int64_t chunks) {
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t layers =
            layers_of_stage(module.layers, chunks * degrees_.pp, chunk * degrees_.pp);
        of_chunks.push_back(double(layers) * costs_at(module, degrees_.tp).activation_bytes *
                            samples * module.sample_shape);
      }
      return device_bytes(module, degrees_, 0, samples * module.sample_shape);
    };
    const double state =
        add(costs.encoder, segments_.encoder) + add(costs.backbone, segments_.backbone);
    return state + lists.max_kept(of_chunks);
  }

  [[nodiscard]] Replica start(const InterleavedBatch& steps, std::int64_t index) {
    Replica replica{.passes = steps.passes(index, shares_)};
    replica.bound = fullest_stage(replica.passes, steps.rounds());
    for (RoundOrder& order :
         starting_orders(steps.encoder_rounds(index), steps.backbone_rounds(index), degrees_.pp)) {
      for (InterleavedOrder& lists : lists_) {
        const std::int64_t time = lists.makespan(replica.passes, order);
        if (time >= replica.time) continue;
        replica.time = time;
        replica.lists = &lists;
        replica.order = order;
      }
    }
    return replica;
  }

  [[nodiscard]] std::int64_t fullest_stage(std::span<const std::int64_t> passes,
                                           std::int64_t rounds) const {
    std::vector<std::int64_t> stages(static_cast<std::size_t>(degrees_.pp));
    for (std::size_t at = 0; at < passes.size(); ++at)
      stages[at / static_cast<std::size_t>(rounds) % stages.size()] += passes[at];
    return *std::max_element(stages.begin(), stages.end());
  }

  /// Swaps microbatches of the slowest replica until it reaches its bound or the budget is used up.
  [[nodiscard]] static std::int64_t polish(std::vector<Replica>& replicas) {
    constexpr std::int64_t kTurns = 32;
    constexpr std::int64_t kSwaps = 16;  // of a turn
    const auto slowest = [&]() -> Replica& {
      return *std::max_element(replicas.begin(), replicas.end(),
                               [](const Replica& a, const Replica& b) { return a.time < b.time; });
    };
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      Replica& mine = slowest();
      if (mine.time <= mine.bound) break;
      mine.time = swap_rounds(
          mine.order, mine.time, kSwaps, static_cast<std::uint64_t>(turn),
          [&](const RoundOrder& order) { return mine.lists->makespan(mine.passes, order); });
    }
    return slowest().time;
  }

  BatchRunner& runner_;
  Degrees degrees_;
  std::int64_t rounds_;
  Segments segments_;
  Deal how_;
  std::vector<StageShare> shares_;
  std::vector<InterleavedOrder> lists_;
};

/// Degrees and microbatches that allow a plan; those with the least work on the mean stage first.
struct Form {
  double bound = 0;
  Degrees degrees;
  std::int64_t rounds = 0;
};

std::vector<Form> list_forms(const TrainingProblem& problem, BatchRunner& runner) {
  std::vector<Form> forms;
  for_each_backbone(problem, [&](const Degrees& degrees, std::int64_t rounds) {
    if (!has_degree(problem.costs.encoder, degrees.tp)) return;
    if (rounds % degrees.pp != 0 && problem.capacity_tokens == 0) return;
    const double samples = double(problem.costs.global_samples) / double(rounds * degrees.dp);
    const Problem3d& costs = problem.costs;
    const double round = runner.encoder_seconds(degrees.tp, samples * costs.encoder.sample_shape) +
                         runner.backbone_seconds(degrees.tp, samples * costs.backbone.sample_shape);
    forms.push_back({round * double(rounds) / double(degrees.pp), degrees, rounds});
  });
  std::stable_sort(forms.begin(), forms.end(),
                   [](const Form& a, const Form& b) { return a.bound < b.bound; });
  return forms;
}

/// The numbers of segments of a module, at most one for each layer; a single stage needs one.
std::vector<std::int64_t> segments_of(const ModuleCosts& module, std::int64_t stages) {
  std::vector<std::int64_t> found = {1};
  for (const std::int64_t segments : {2, 3, 4, 6, 8})
    if (stages > 1 && segments * stages <= module.layers) found.push_back(segments);
  return found;
}

void offer_segments(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best, Deal how,
                    std::size_t max_forms) {
  const std::vector<double> nothing(problem.batches.size());
  std::size_t offered = 0;
  for (const auto& [bound, degrees, rounds] : list_forms(problem, runner)) {
    bool is_admitted = false;
    for (const std::int64_t encoder : segments_of(problem.costs.encoder, degrees.pp)) {
      for (const std::int64_t backbone : segments_of(problem.costs.backbone, degrees.pp)) {
        SegmentedChain chain(runner, degrees, rounds, {encoder, backbone}, how);
        if (!best.admits(chain.bytes(), fullest_of_both(problem, degrees.pp),
                         [&] { return chain.describe(); }))
          continue;
        is_admitted = true;
        best.race(
            chain.describe(),
            [&](std::size_t batch, double limit) { return chain.run(batch, limit); }, nothing);
      }
    }
    if (is_admitted && ++offered == max_forms) break;
  }
}

}  // namespace

PipelineAnswer solve_pipeweaver(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  offer_segments(problem, runner, best, Deal::kInOrder, std::numeric_limits<std::size_t>::max());
  return best.answer(form_of_backbone(problem) +
                     ", tp of both modules' tables, microbatches a multiple of pp");
}

void offer_balanced_segments(const TrainingProblem& problem, BatchRunner& runner, BestPlan& best) {
  constexpr std::size_t kForms = 8;  // with the least work on the mean stage
  offer_segments(problem, runner, best, Deal::kBalanced, kForms);
}

}  // namespace tributary::studies
