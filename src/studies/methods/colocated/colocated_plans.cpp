#include "studies/methods/colocated/colocated_plans.h"

#include <algorithm>

#include "core/text.h"

namespace tributary::studies {

double colocated_bytes(const TrainingProblem& problem, const Degrees& backbone, std::int64_t rounds,
                       std::int64_t tp, double depth, double samples) {
  // Every rank holds a part of a copy.
  const Degrees encoder = {tp, 1, std::max<std::int64_t>(backbone.devices() / tp, 1)};
  return backbone_bytes(problem, backbone, rounds) +
         encoder_bytes(problem, encoder, depth, samples);
}

std::string describe_colocated(const Degrees& backbone, std::int64_t rounds, std::int64_t tp) {
  return str(to_text(backbone), ", ", microbatches_text(rounds), ", encoder tp ", tp);
}

std::string label_of(const char* where, Deal how) { return how == Deal::kBalanced ? where : ""; }

}  // namespace tributary::studies
