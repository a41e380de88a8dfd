#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/sample.h"
#include "train/metrics/step_metrics.h"

namespace tributary::train {

/// What the model answered to one held-out question.
struct Prediction {
  int source = 0;
  std::string key;  // file:line of the record
  std::string question;
  std::string expected;                 // what the record teaches
  std::vector<std::string> references;  // accepted answers; `expected` alone where it lists none
  std::string answer;
  std::vector<double> scores;      // one for each of the result's metrics
  std::int64_t prompt_tokens = 0;  // its media included
  std::int64_t answer_tokens = 0;
  bool cut = false;                         // the answer reached max_new_tokens before it ended
  std::optional<std::string> blind_answer;  // with the pixels set to zero
  std::int64_t picture_count = 0;           // of the question, kept or not
  std::vector<data::Picture> pictures;      // on rank 0; empty where they were not kept

  [[nodiscard]] bool correct() const { return accepts(answer); }
  [[nodiscard]] bool blind_correct() const { return blind_answer && accepts(*blind_answer); }
  [[nodiscard]] bool accepts(const std::string& text) const {
    return std::ranges::find(references, text) != references.end();
  }
};

/// Loss, exact match and other scores on held-out samples: of all ranks, the same on each.
struct ValidationResult {
  std::vector<SourceLoss> loss;      // by source
  std::vector<std::string> metrics;  // names of config::kAnswerScores
  std::vector<Prediction> predictions;
  std::vector<PairSums> pairs;      // by source, where pairs are compared in place of answers
  std::int64_t refused = 0;         // held-out records that could not be used
  std::int64_t max_new_tokens = 0;  // of an answer
  bool stopped = false;             // should_stop said so: not all samples were scored

  /// Predictions or pairs of one source or (-1) of all.
  [[nodiscard]] std::int64_t count(int source = -1) const;
  /// Pairs of one source or (-1) of all.
  [[nodiscard]] PairSums sum_pairs(int source = -1) const;
  /// Answers that were cut.
  [[nodiscard]] std::int64_t count_cut() const;
  /// Mean over all target tokens or pairs; NaN without samples.
  [[nodiscard]] double mean_loss() const;
  /// Share of right answers, or of pairs whose chosen answer is preferred, of one source or (-1) of
  /// all; NaN without samples.
  [[nodiscard]] double accuracy(int source = -1) const;
  [[nodiscard]] double blind_accuracy(int source = -1) const;
  /// Mean of the score of that place in `metrics`, of one source or (-1) of all; NaN without
  /// samples.
  [[nodiscard]] double mean_score(std::size_t metric, int source = -1) const;
};

/// The scores of `metrics` by name, each of every source and `overall`; empty without one.
[[nodiscard]] Json scores_json(const ValidationResult& result,
                               const std::vector<std::string>& sources);
/// A prediction as files have it: question, answer, references, scores, lengths; without pictures.
[[nodiscard]] Json prediction_json(const ValidationResult& result, const Prediction& prediction,
                                   const std::vector<std::string>& sources);

/// The line of validation.jsonl.
[[nodiscard]] Json to_json(const ValidationResult& result, std::int64_t step,
                           const std::vector<std::string>& sources);

/// Loss and accuracy in a line: `loss 1.4019, exact match 9.1 % of 33`, and how many samples were
/// bad and answers cut; without a prediction, why there is none.
[[nodiscard]] std::string describe(const ValidationResult& result);

/// Accuracy by source as a table for people.
[[nodiscard]] std::string draw_table(const ValidationResult& result,
                                     const std::vector<std::string>& sources);

}  // namespace tributary::train
