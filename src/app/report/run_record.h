#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tributary::app {

/// A number that a file may leave out or write as null.
using MaybeNumber = std::optional<double>;

/// One line of metrics.jsonl; docs/formats/run_directory.md explains the fields.
struct StepRecord {
  std::int64_t step = 0;
  MaybeNumber loss, learning_rate, grad_norm, tokens_per_second, fill, padding, mfu, hfu, bytes;
  std::map<std::string, double> seconds;
  std::map<std::string, double> waiting;  // seconds, within seconds["data"]
  std::map<std::string, double> flow;     // what encoders beside the run gave; empty without any
  std::string reallocation;  // why another number of encoders was wanted after the step; or empty
  std::map<std::string, double> loss_by_source;
  std::map<std::string, std::map<std::string, double>> drawn;  // by source, then by what is counted
  std::map<std::string, std::map<std::string, double>> norms;  // by kind, then by module
  bool skipped = false;
  std::string skip_reason;
  std::vector<std::string> sample_ids;
};

struct ValidationRecord {
  std::int64_t step = 0;
  MaybeNumber loss;
  std::map<std::string, double> loss_by_source;
  std::map<std::string, double> accuracy;
};

struct Prediction {
  std::string source, question, answer, expected;
  bool correct = false;
  std::optional<std::string> blind_answer;
  std::vector<std::string> images;  // the pictures that were kept
  bool cut = false;
  MaybeNumber pictures = {};                  // number in the question; null in older runs
  std::vector<std::string> references = {};   // accepted answers; empty in older runs
  std::map<std::string, double> scores = {};  // by metric
  std::string key = {};                       // file and place of the record
};

/// An answer of one of several validations.
struct FollowedAnswer {
  std::int64_t step = 0;
  Prediction prediction;
};

/// Tokens of a training sample that are alike; a token that ends inside a character is empty.
struct TokenPiece {
  std::vector<std::string> tokens;
  bool is_target = false;
  MaybeNumber repeats = {};  // of a token that stands there many times
};

/// A training sample of the first step, as the model sees it.
struct SampleRecord {
  std::string source, key;
  MaybeNumber tokens, target_tokens;
  std::vector<TokenPiece> pieces;
  std::vector<std::string> images;
};

struct RefusedRecord {
  std::string key, code, reason;
};

/// One module of the model.
struct ModuleRecord {
  std::string name;
  double parameters = 0;
  bool trained = true;
  MaybeNumber trained_parameters = {};  // with adapters, theirs; null in older runs
  std::string dtype = {};
  MaybeNumber bytes = {};
};

struct Summary {
  MaybeNumber steps, tokens, loss, tokens_per_second, wall_seconds, peak_bytes, blind_accuracy;
  MaybeNumber cut_answers, max_new_tokens, epochs;
  std::map<std::string, double> accuracy;
  std::map<std::string, double> blind_accuracy_by_source;
  std::map<std::string, std::map<std::string, double>> scores;  // by metric, then by source
  std::string stopped;
};

/// The content of a run directory. The list of a missing file is empty, and `missing` names it.
struct RunRecord {
  std::string directory;
  std::string name;
  std::string config;
  bool compares_pairs = false;    // of answers: then accuracy and loss are of them
  std::vector<StepRecord> steps;  // ascending, each step once
  std::vector<ValidationRecord> validations;
  std::vector<Prediction> predictions;
  std::vector<FollowedAnswer> answers;  // the same questions at each validation, in its order
  std::vector<SampleRecord> samples;
  std::vector<RefusedRecord> refused;
  std::optional<Summary> summary;
  std::string failure;                // first line of error.txt or a watchdog's file; empty without
  std::vector<ModuleRecord> modules;  // in order of the forward pass; empty in older runs
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> missing;

  [[nodiscard]] const char* meaning_of_accuracy() const {
    return compares_pairs ? "pairs in the right order" : "exact match";
  }
};

/// Reads a run directory, even while the run goes on or after it was killed.
///
/// errors: Fault::kInput when config.yaml or metrics.jsonl is missing, or naming file, line and
///         field that cannot be read; an incomplete last line is left out
[[nodiscard]] RunRecord read_run(const std::string& directory);

}  // namespace tributary::app
