// Megatron in the forms that papers compare with: one set of degrees for all modules.

#include <algorithm>

#include "core/text.h"
#include "studies/methods/layer_shares.h"
#include "studies/methods/plan_space.h"

namespace tributary::studies {
namespace {

std::string describe(const Degrees& degrees, std::int64_t rounds) {
  return str(to_text(degrees), ", ", microbatches_text(rounds));
}

struct Kernels {
  double efficiency = 1;
  bool hides_transfers = true;  // features and gradients travel during compute
};

/// The longest gradient reduction of a stage, of both modules where it holds layers of both.
double sync_of_chain(const BatchRunner& runner, const Degrees& degrees, std::int64_t rounds,
                     const std::vector<StageShare>& shares, Kernels kernels) {
  const Problem3d& costs = runner.problem().costs;
  const Degrees whole = {degrees.tp, 1, degrees.dp};
  // Negative where backward hides more than the module's own gradients.
  const auto exposed = [&](const ModuleCosts& module) {
    return runner.whole_sync_seconds(module, whole) -
           (kernels.hides_transfers ? runner.backward_seconds(module, whole, rounds) : 0);
  };
  const double encoder = exposed(costs.encoder);
  const double backbone = exposed(costs.backbone);
  double longest = 0;
  for (const StageShare& share : shares)
    longest = std::max(longest, share.encoder * encoder + share.backbone * backbone);
  return longest;
}

double run_chain(BatchRunner& runner, std::size_t batch, const Degrees& degrees,
                 std::int64_t rounds, const std::vector<StageShare>& shares, Kernels kernels) {
  const Buckets& buckets = runner.deal(batch, degrees.dp, rounds, Deal::kInOrder, degrees, degrees);
  const std::vector<double> encoder = runner.encoder_seconds(degrees.tp, buckets);
  const std::vector<double> backbone = runner.backbone_seconds(degrees.tp, buckets);
  const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
    const std::size_t bucket = buckets.at(replica, round);
    const StageShare& share = shares[stage];
    PassSeconds times =
        runner.split_encoder(share.encoder * encoder[bucket] / kernels.efficiency) +
        runner.split_backbone(share.backbone * backbone[bucket] / kernels.efficiency);
    const bool sends =
        share.encoder > 0 && (stage + 1 == std::ssize(shares) || shares[stage + 1].encoder == 0);
    if (sends && !kernels.hides_transfers) {
      const double seconds = runner.feature_seconds(buckets.work[bucket].tiles, degrees.tp);
      times.forward += seconds;
      times.backward += seconds;
    }
    return times;
  };
  return runner.run_pipelines(
             static_cast<int>(shares.size()), buckets, [&](int) { return degrees.tp; }, cost) +
         sync_of_chain(runner, degrees, rounds, shares, kernels);
}

PipelineAnswer solve_encoder_stages(const TrainingProblem& problem, Kernels kernels) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const Problem3d& costs = problem.costs;
  for (const DegreeCosts& degree : costs.backbone.degrees) {
    if (!has_degree(costs.encoder, degree.tp)) continue;
    for (std::int64_t dp = 1; degree.tp * dp <= costs.devices && dp <= costs.global_samples; ++dp) {
      if (costs.devices % (degree.tp * dp) != 0) continue;
      const std::int64_t stages = costs.devices / (degree.tp * dp);
      for (std::int64_t mine = 1; mine < stages; ++mine) {
        if (mine > costs.encoder.layers || stages - mine > costs.backbone.layers) continue;
        for (const std::int64_t rounds : rounds_of(problem, dp)) {
          const Plan3d plan = {{degree.tp, mine, dp}, {degree.tp, stages - mine, dp}, rounds, 0};
          const std::string text = str(to_text({degree.tp, stages, dp}), ", first ", mine,
                                       " stages the encoder, ", microbatches_text(rounds));
          if (!is_valid(costs, plan)) {
            const MemoryNeed need = need_of(problem.costs, plan);
            best.refuse({need.bytes, text, need.of});
            continue;
          }
          const std::vector<StageShare> shares = cut_by_module(costs, mine, stages - mine);
          best.offer({text, form_of(plan)}, [&](std::size_t batch) {
            return run_chain(runner, batch, {degree.tp, stages, dp}, rounds, shares, kernels);
          });
        }
      }
    }
  }
  return best.answer(
      str("one tp and dp for both modules, tp one of both tables, and at least a stage ",
          "for each, up to ", costs.encoder.layers, " of ", costs.encoder.name, " and ",
          costs.backbone.layers, " of ", costs.backbone.name));
}

/// The fuller one of the first stage, with the whole encoder, and the second, with one microbatch
/// less in flight.
double first_stage_bytes(const TrainingProblem& problem, const Degrees& degrees,
                         std::int64_t beside, double samples) {
  const auto backbone = [&](std::int64_t layers, std::int64_t depth) {
    const ModuleCosts& module = problem.costs.backbone;
    const double share = double(layers) / double(module.layers);
    const Degrees whole = {degrees.tp, 1, degrees.dp};
    return share * device_bytes(module, whole, double(depth), samples * module.sample_shape);
  };
  const double first =
      backbone(beside, degrees.pp) +
      encoder_bytes(problem, {degrees.tp, 1, degrees.dp}, double(degrees.pp), samples);
  if (degrees.pp == 1) return first;
  const std::int64_t second =
      layers_of_stage(problem.costs.backbone.layers - beside, degrees.pp - 1, 0);
  return std::max(first, backbone(second, degrees.pp - 1));
}

}  // namespace

PipelineAnswer solve_megatron_uniform(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  for_each_backbone(problem, [&](const Degrees& degrees, std::int64_t rounds) {
    if (!has_degree(problem.costs.encoder, degrees.tp)) return;
    const double samples = double(problem.costs.global_samples) / double(rounds * degrees.dp);
    const double bytes = backbone_bytes(problem, degrees, rounds) +
                         encoder_bytes(problem, degrees, double(degrees.pp), samples);
    const auto text = [&] { return describe(degrees, rounds); };
    if (!best.admits(bytes, fullest_of_both(problem, degrees.pp), text)) return;
    const std::vector<StageShare> shares = cut_uniformly(problem.costs, degrees.pp);
    std::optional<TrainerForm> form;  // a single stage has no cut
    if (degrees.pp == 1) form = inline_form(degrees, rounds);
    best.offer({text(), form}, [&](std::size_t batch) {
      return run_chain(runner, batch, degrees, rounds, shares, {});
    });
  });
  return best.answer(form_of_backbone(problem) + ", tp of both modules' tables");
}

PipelineAnswer solve_megatron_first_stage(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  const std::int64_t layers = problem.costs.backbone.layers;
  for_each_backbone(problem, [&](const Degrees& degrees, std::int64_t rounds) {
    if (!has_degree(problem.costs.encoder, degrees.tp)) return;
    const double samples = double(problem.costs.global_samples) / double(rounds * degrees.dp);
    // The first stage has at most an even part of the layers, and leaves one to each other stage.
    const std::int64_t max = layers_of_stage(layers, degrees.pp, 0);
    const std::int64_t min = degrees.pp == 1 ? layers : 0;
    for (std::int64_t beside = min; beside <= max; ++beside) {
      if (layers - beside < degrees.pp - 1) break;
      const double bytes = first_stage_bytes(problem, degrees, beside, samples);
      const auto text = [&] {
        return str(describe(degrees, rounds), ", ", beside, " layers beside the encoder");
      };
      if (!best.admits(bytes, fullest_of_both(problem, degrees.pp), text)) continue;
      const std::vector<StageShare> shares = cut_behind_encoder(problem.costs, beside, degrees.pp);
      TrainerForm form = inline_form(degrees, rounds);
      form.first_layers = beside;
      best.offer({text(), form}, [&](std::size_t batch) {
        return run_chain(runner, batch, degrees, rounds, shares, {});
      });
    }
  });
  return best.answer(form_of_backbone(problem) + ", tp of both modules' tables");
}

PipelineAnswer solve_megatron_encoder_stage(const TrainingProblem& problem) {
  return solve_encoder_stages(problem, {});
}

PipelineAnswer solve_pytorch_3d(const TrainingProblem& problem) {
  // Plainer kernels without overlap: 0.85 of the kernels' rate is assumed; no figure is published.
  return solve_encoder_stages(problem, {.efficiency = 0.85, .hides_transfers = false});
}

PipelineAnswer solve_backbone_alone(const TrainingProblem& problem) {
  BatchRunner runner(problem);
  BestPlan best(runner);
  for_each_backbone(problem, [&](const Degrees& degrees, std::int64_t rounds) {
    const auto text = [&] { return describe(degrees, rounds); };
    if (!best.admits(backbone_bytes(problem, degrees, rounds),
                     fullest_of(problem.costs.backbone, degrees.pp), text))
      return;
    std::vector<StageShare> shares = cut_by_module(problem.costs, 0, degrees.pp);
    best.offer(text(), [&](std::size_t batch) {
      const Buckets& buckets =
          runner.deal(batch, degrees.dp, rounds, Deal::kByTokens, degrees, degrees);
      const auto cost = [&](int stage, std::int64_t replica, std::int64_t round) {
        return runner.split_backbone(
            shares[stage].backbone *
            runner.backbone_seconds(degrees.tp, buckets.work[buckets.at(replica, round)].tokens));
      };
      return runner.run_pipelines(
                 static_cast<int>(degrees.pp), buckets, [&](int) { return degrees.tp; }, cost) +
             runner.sync_seconds(problem.costs.backbone, degrees, rounds);
    });
  });
  return best.answer(form_of_backbone(problem));
}

}  // namespace tributary::studies
