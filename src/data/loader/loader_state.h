#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"

namespace tributary::data {

/// Identifies one record of the training or held-out files for ever.
struct RecordId {
  std::int64_t source = 0;  // index in data.sources
  std::int64_t record = 0;  // from 0, in the order of the file

  friend auto operator<=>(const RecordId&, const RecordId&) = default;
};

/// A record that could not be used, and the code of the reason.
struct QuarantinedRecord {
  RecordId id;
  std::string code;

  friend auto operator<=>(const QuarantinedRecord&, const QuarantinedRecord&) = default;
};

/// Size and content of a source when the run began; a resumed run must find the same.
struct SourceDigest {
  std::string name;
  std::int64_t bytes = 0;    // of the JSONL file
  std::int64_t records = 0;  // all, including those held out
  std::string content;       // XXH3 of the JSONL file, 16 hex digits
  std::string images;        // SHA-256 of the first images, 16 hex digits; empty without any

  friend bool operator==(const SourceDigest&, const SourceDigest&) = default;
};

/// `words: 48 records, 5120 bytes, content 91c0...`
[[nodiscard]] std::string describe(const SourceDigest& source);

/// The position in the data order after the samples handed out so far, not those read ahead. It
/// does not depend on ranks or threads, so both may change between save and restore.
///
/// units: all samples before `next_index` have been handed out; cursors sum up to it
struct LoaderState {
  std::uint64_t seed = 0;
  double held_out_fraction = 0;
  std::vector<SourceDigest> sources;
  std::vector<double> weights;
  std::vector<std::int64_t> start_steps;
  std::int64_t next_index = 0;
  std::vector<std::int64_t> cursors;           // samples drawn from each source, over all epochs
  std::vector<QuarantinedRecord> quarantined;  // each record once, in the order found
  std::vector<std::int64_t> left_out;          // [sources] too long records, first epoch only
  std::vector<std::int64_t> trained_ahead;     // ids from next_index on that were trained on
                                               // already (pool.order)

  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

/// How many records are bad for each reason: code -> records.
[[nodiscard]] std::map<std::string, std::int64_t> count_reasons(
    std::span<const QuarantinedRecord> quarantined);

[[nodiscard]] Json to_json(const LoaderState& state);
/// errors: Fault::kInput naming `where` and the key
[[nodiscard]] LoaderState loader_state_from_json(const Json& json, const std::string& where);

/// Refuses to go on from a state that was made with another seed, mixture or data set, or whose
/// cursors do not add up. Keys in `accepted` may differ.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused, naming the difference
void check_same_data(const LoaderState& saved, const LoaderState& own,
                     std::span<const std::string> accepted);

}  // namespace tributary::data
