#include "train/executor/pair_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/error.h"
#include "ops/to_device.h"

namespace tributary::train {
namespace {

/// A microbatch as sequences of pairs.
struct Sequences {
  model::TargetLosses losses;
  at::Tensor targets;    // [pairs, 2] i64 on the host: how many each sequence has
  at::Tensor log_probs;  // [pairs, 2] f64, without gradient; chosen, then rejected
};

at::Tensor count_targets(const Microbatch& microbatch) {
  const std::vector<std::int32_t>& bounds = microbatch.batch.cu_seqlens;
  const auto pairs = std::ssize(microbatch.pair_sources);
  const at::Tensor counts = at::zeros({pairs, 2}, at::kLong);
  if (pairs == 0) return counts;  // an idle microbatch
  TRIB_CHECK(std::ssize(bounds) == 2 * pairs + 1, .what = "train: not two sequences a pair",
             .found = str(bounds.size() - 1), .expected = str(2 * pairs));
  const at::Tensor is_target = (microbatch.targets >= 0).to(at::kLong);
  auto* count = counts.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i)
    count[i] = is_target.slice(0, bounds[i], bounds[i + 1]).sum().item<std::int64_t>();
  return counts;
}

Sequences score(model::Model& model, const Microbatch& microbatch, const at::Tensor& hidden,
                std::int64_t max_logits) {
  Sequences scored{.losses = model::target_losses(model, hidden, microbatch.targets,
                                                  microbatch.batch.cu_seqlens, max_logits),
                   .targets = count_targets(microbatch),
                   .log_probs = {}};
  const at::Tensor rows = scored.losses.rows.to(at::kDouble);
  scored.log_probs =
      scored.targets.numel() == 0
          ? at::zeros({0, 2}, rows.options())
          : -at::segment_reduce(rows, "sum",
                                ops::to_device(scored.targets.flatten(), rows.device()))
                 .view({-1, 2});
  return scored;
}

/// A comparison of pairs. shape: all [pairs] f64; `losses` is differentiable
struct Comparison {
  at::Tensor losses;
  at::Tensor chosen_rewards;
  at::Tensor rejected_rewards;
};

/// source: Rafailov 2023, "DPO" (arXiv:2305.18290), equation 7; Azar 2023 (arXiv:2310.12036),
///         equation 17, with means over the targets in place of sums; Pang 2024 (arXiv:2404.19733),
///         equation 1
Comparison compare(const config::ObjectiveSection& objective, const at::Tensor& log_probs,
                   const at::Tensor& reference, const at::Tensor& targets) {
  const auto margin_of = [](const at::Tensor& of_pairs) {
    return of_pairs.select(1, 0) - of_pairs.select(1, 1);
  };
  const at::Tensor ratios = log_probs - reference;
  const at::Tensor rewards = objective.beta * ratios.detach();
  Comparison result{.losses = {},
                    .chosen_rewards = rewards.select(1, 0),
                    .rejected_rewards = rewards.select(1, 1)};
  if (objective.loss == config::PairLoss::kIpo) {
    result.losses = (margin_of(ratios / targets) - 1 / (2 * objective.beta)).square();
  } else {
    const at::Tensor margins = objective.beta * margin_of(ratios);
    const double wrong = objective.label_smoothing;
    result.losses = -(1 - wrong) * at::log_sigmoid(margins) - wrong * at::log_sigmoid(-margins);
  }
  if (objective.sft_weight > 0)
    result.losses = result.losses - objective.sft_weight * (log_probs / targets).select(1, 0);
  return result;
}

}  // namespace

void PairLoss::take_reference(int index, const Microbatch& microbatch, const at::Tensor& hidden) {
  reference_[index] = score(model_, microbatch, hidden, max_logits_).log_probs;
}

at::Tensor PairLoss::operator()(int index, const Microbatch& microbatch, const at::Tensor& hidden) {
  const Sequences scored = score(model_, microbatch, hidden, max_logits_);
  const at::Tensor targets =
      ops::to_device(scored.targets.to(at::kDouble), scored.log_probs.device());
  const at::AutoGradMode with_gradients(true);
  const at::Tensor log_probs = scored.log_probs.detach().requires_grad_(true);
  const Comparison pairs = compare(objective_, log_probs, reference_.at(index), targets);
  const at::Tensor gradients = torch::autograd::grad({pairs.losses.sum()}, {log_probs}).front();
  const at::Tensor sure = (pairs.chosen_rewards > pairs.rejected_rewards).to(at::kDouble);
  figures_.push_back(
      {at::stack({pairs.losses.detach(), pairs.chosen_rewards, pairs.rejected_rewards, sure,
                  scored.log_probs.select(1, 0), scored.log_probs.select(1, 1)}),
       microbatch.pair_sources});
  // A loss is minus a log-probability, so the weight of a row is minus the gradient of its
  // sequence.
  const at::Tensor& own = scored.losses.own;
  const at::Tensor weights =
      (gradients.flatten() / -static_cast<double>(pairs_))
          .to(own.scalar_type())
          .repeat_interleave(ops::to_device(scored.targets.flatten(), own.device()))
          .index_select(0, ops::to_device(scored.losses.places, own.device()));
  return (own * weights).sum();
}

void PairLoss::add_to(std::vector<SourceLoss>& losses, std::vector<PairSums>& sums) const {
  for (const Figures& figures : figures_) {
    const at::Tensor values = figures.values.to(at::kCPU).t().contiguous();
    const double* value = values.const_data_ptr<double>();
    for (const int source : figures.sources) {
      losses[static_cast<std::size_t>(source)] += {.sum = *value++, .targets = 1};
      PairSums& own = sums[static_cast<std::size_t>(source)];
      ++own.pairs;
      for (double* sum : own.numbers()) *sum += *value++;
    }
  }
}

}  // namespace tributary::train
