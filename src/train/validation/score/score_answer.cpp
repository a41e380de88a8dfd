#include <algorithm>
#include <array>

#include "core/error.h"
#include "train/validation/score/answer_scores.h"

namespace tributary::train {
namespace {

struct NamedScore {
  const char* name;
  double (*score)(const std::string& answer, std::span<const std::string> references);
};
constexpr std::array kScores{NamedScore{"token_f1", token_f1}, NamedScore{"anls", anls},
                             NamedScore{"rouge_l", rouge_l},
                             NamedScore{"vqa_accuracy", vqa_accuracy}};

}  // namespace

double score_answer(const std::string& score, const std::string& answer,
                    std::span<const std::string> references) {
  const auto* named =
      std::ranges::find_if(kScores, [&](const NamedScore& each) { return each.name == score; });
  TRIB_CHECK(named != kScores.end(), .what = "train: no such score of answers", .found = score);
  return named->score(answer, references);
}

}  // namespace tributary::train
