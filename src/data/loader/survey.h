#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "core/json.h"
#include "core/units.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/shape_counts.h"

namespace tributary::data {

/// Counts values in ranges that double: [1, 2), [2, 4), ...; zero has a range of its own.
struct Histogram {
  std::map<std::int64_t, std::int64_t> counts;  // min value of the range -> how many
  std::map<std::int64_t, std::int64_t> exact;   // value -> how many
  std::int64_t values = 0;
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::int64_t sum = 0;

  void add(std::int64_t value);
  /// The smallest value that at least `percent` of all values do not exceed; 0 without values.
  [[nodiscard]] std::int64_t percentile(int percent) const;
};

struct BadRecord {
  std::string key;  // file:line
  Refusal refusal;
};

/// Statistics of a data set, from reading every record and decoding every picture.
struct Survey {
  std::string name;
  std::string path;
  std::int64_t bytes = 0;
  std::int64_t records = 0;   // in the file
  std::int64_t surveyed = 0;  // of those, good or bad
  std::int64_t blank_lines = 0;
  std::map<std::string, std::int64_t> forms;  // name of the form -> good records
  std::int64_t turns = 0;
  std::int64_t images = 0;
  std::int64_t clips = 0;
  std::int64_t sounds = 0;
  std::int64_t frames = 0;
  Histogram text_bytes;     // of a record
  Histogram picture_sides;  // longer side of each picture [pixels]
  Histogram tokens;         // of all samples, also too long ones; empty without an encoder
  Histogram target_tokens;
  Tokens max_tokens;          // of SurveyOptions
  std::int64_t too_long = 0;  // samples above max_tokens; they are not bad
  std::vector<BadRecord> first_too_long;
  ShapeCounts shapes;  // of the samples that are not too long; empty without an encoder
  double weight = 0;   // share of the run's draws, relative to other files; 0: none are drawn
  std::map<std::string, std::int64_t> unread_keys;  // key -> records that have it
  std::map<std::string, std::int64_t> bad;          // reason code -> records
  std::vector<BadRecord> first_bad;
  std::string first_sample;  // rendered; empty when none is good

  [[nodiscard]] std::int64_t bad_records() const;
};

struct SurveyOptions {
  std::int64_t limit = 0;                  // records of each file; 0: all
  const SampleEncoder* encoder = nullptr;  // null: tokens are not counted; it must have no limit
  Tokens max_tokens = {};                  // longer samples are too long; 0: no limit
};

/// Reads the records of a source from its beginning; not those of its held-out file.
///
/// errors: Fault::kInput when the file or the image folder is missing; a bad record is counted
/// cost:   decodes every picture, in the calling thread
[[nodiscard]] Survey survey_source(const config::SourceSection& source,
                                   const SurveyOptions& options);

[[nodiscard]] Json to_json(const Survey& survey);
/// Formats a survey for a reader at a terminal.
[[nodiscard]] std::string to_text(const Survey& survey);

}  // namespace tributary::data
