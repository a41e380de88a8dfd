#include "config/run/run_field.h"

namespace tributary::config {

std::vector<Key> objective_keys() {
  using R = RunConfig;
  using O = ObjectiveSection;
  return {
      key<&R::objective, &O::kind>(
          {.path = "objective.kind",
           .meaning = "`next_token` learns the answers of the records; `dpo` learns from pairs "
                      "which of two answers is better, beside the model as it was at the start."}),
      key<&R::objective, &O::loss>(
          {.path = "objective.loss",
           .meaning = "Of a pair: `sigmoid` (DPO), or `ipo`, which takes the mean of the "
                      "log-probabilities of an answer in place of their sum."}),
      key<&R::objective, &O::beta>(
          {.path = "objective.beta",
           .meaning = "How strongly the model is held to the reference; the reward of an answer is "
                      "this times its log-probability above that of the reference.",
           .range = {0, 1e3, true}}),
      key<&R::objective, &O::label_smoothing>(
          {.path = "objective.label_smoothing",
           .meaning = "Share of pairs that may be the wrong way round (conservative DPO), with "
                      "`loss: sigmoid`.",
           .range = {0, 0.5, false, true}}),
      key<&R::objective, &O::sft_weight>(
          {.path = "objective.sft_weight",
           .meaning = "Weight of the mean cross entropy of the chosen answer, which is added to "
                      "the loss (RPO).",
           .range = {0, 1e6}}),
  };
}

}  // namespace tributary::config
