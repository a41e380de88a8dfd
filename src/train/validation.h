#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/sample.h"
#include "train/metrics/step_metrics.h"
#include "train/session.h"

namespace tributary::train {

/// What the model answered to one held-out question.
struct Prediction {
  int source = 0;
  std::string question;
  std::string expected;
  std::string answer;
  bool cut = false;  // the answer had not ended when it had the most tokens that it may have
  std::optional<std::string> blind_answer;  // with the pixels set to zero
  std::int64_t picture_count = 0;           // of the question, kept or not
  std::vector<data::Picture> pictures;      // empty where they were not kept

  [[nodiscard]] bool correct() const { return answer == expected; }
  [[nodiscard]] bool blind_correct() const { return blind_answer && *blind_answer == expected; }
};

struct ValidationOptions {
  std::int64_t samples_per_source = 0;  // the first ones; 0: all
  bool blind = false;
  std::int64_t pictures_per_source = 0;        // first predictions that keep their pictures
  std::int64_t wrong_pictures_per_source = 0;  // wrong ones that do, the first among them
  std::function<bool()> should_stop = {};      // asked before each pack; empty: never
};

/// Loss and exact match on held-out samples.
struct ValidationResult {
  std::vector<SourceLoss> loss;  // by source
  std::vector<Prediction> predictions;
  std::int64_t refused = 0;         // held-out records that could not be used
  std::int64_t max_new_tokens = 0;  // of an answer
  bool stopped = false;             // should_stop said so: not all samples were scored

  /// Predictions of one source.
  [[nodiscard]] std::int64_t count(int source) const;
  /// Answers that were cut.
  [[nodiscard]] std::int64_t count_cut() const;
  /// Mean over all target tokens; NaN without samples.
  [[nodiscard]] double mean_loss() const;
  /// Share of right answers, of one source or (-1) of all; NaN without samples.
  [[nodiscard]] double accuracy(int source = -1) const;
  [[nodiscard]] double blind_accuracy(int source = -1) const;
};

/// Scores every held-out sample by its loss and by greedy generation after its prompt. An answer
/// is right when its text, without white space at both ends, equals the expected one. It may have
/// validation.max_new_tokens tokens; where that is 0, a quarter and at least 8 more than the
/// longest expected answer of all that is asked, and at most 1024.
///
/// cost: samples are packed to batch.capacity_tokens; generation decodes all of a pack together
[[nodiscard]] ValidationResult validate(const Session& session, const ValidationOptions& options);

/// The line of validation.jsonl.
[[nodiscard]] Json to_json(const ValidationResult& result, std::int64_t step,
                           const std::vector<std::string>& sources);

/// Loss and accuracy in a line: `loss 1.4019, exact match 9.1 % of 33`, and how many answers were
/// cut.
[[nodiscard]] std::string describe(const ValidationResult& result);

/// Accuracy by source as a table for people.
[[nodiscard]] std::string draw_table(const ValidationResult& result,
                                     const std::vector<std::string>& sources);

}  // namespace tributary::train
