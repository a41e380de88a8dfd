#include "config/run/key_checker.h"

namespace tributary::config {

void check_objective(const RunConfig& config, KeyChecker& check) {
  const ObjectiveSection& objective = config.objective;
  if (!objective.compares_pairs()) {
    check.require(objective == ObjectiveSection(), "objective.kind",
                  {.what = "config: keys of the objective have no effect",
                   .found = "kind next_token, and other keys of the section",
                   .expected = "dpo, or no such keys"});
    return;
  }
  check.require(objective.label_smoothing == 0 || objective.loss == PairLoss::kSigmoid,
                "objective.label_smoothing",
                {.what = "config: label smoothing has no effect",
                 .found = str("label_smoothing ", objective.label_smoothing, " with loss ipo"),
                 .expected = "0, or objective.loss: sigmoid"});
  check.require(config.data.too_long != TooLong::kTruncate, "data.too_long",
                {.what = "config: pairs of answers are never cut",
                 .found = "truncate, and objective.kind dpo",
                 .expected = "drop or refuse"});
  const ValidationSection& validation = config.validation;
  const auto refuse_answers = [&](bool asks, const std::string& key) {
    check.require(!asks, key,
                  {.what = "config: a validation of pairs generates no answers",
                   .found = "objective.kind dpo",
                   .expected = str("no ", key),
                   .fix = "answers of a trained model: tributary evaluate"});
  };
  refuse_answers(!validation.metrics.empty(), "validation.metrics");
  refuse_answers(validation.blind, "validation.blind");
  refuse_answers(validation.max_new_tokens > 0, "validation.max_new_tokens");
  check.require(config.batch.costs.empty() && !config.batch.correct_costs, "batch.costs",
                {.what = "config: costs hold no times of the reference",
                 .found = "batch.costs or batch.correct_costs, and objective.kind dpo",
                 .expected = "neither: balancing counts FLOPs"});
}

}  // namespace tributary::config
