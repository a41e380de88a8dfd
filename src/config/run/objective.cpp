#include "config/run/objective.h"

#include "core/text.h"

namespace tributary::config {

std::string describe_objective(const ObjectiveSection& objective) {
  if (!objective.compares_pairs()) return "next_token";
  std::string text = str("dpo, ", objective.loss == PairLoss::kIpo ? "ipo" : "sigmoid",
                         " loss, beta ", objective.beta);
  if (objective.label_smoothing > 0) text += str(", label smoothing ", objective.label_smoothing);
  if (objective.sft_weight > 0) text += str(", sft weight ", objective.sft_weight);
  return text;
}

}  // namespace tributary::config
