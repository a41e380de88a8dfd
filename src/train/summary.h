#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

#include "train/loop.h"

namespace tributary::train {

/// Bad records of all ranks, by reason code.
using BadRecords = std::map<std::string, std::int64_t>;

/// Records of all replicas that were left out because they are too long, up to the last checkpoint.
[[nodiscard]] std::int64_t count_left_out(const Loop& loop);

/// Writes summary.json, and after a run that came to its end predictions.jsonl with its pictures.
void write_summary(const RunDirectory& run, const Session& session, const Loop& loop, Loop::End end,
                   const BadRecords& bad);

/// Whether the run of a directory came to its end.
[[nodiscard]] bool has_ended(const RunDirectory& run);

/// Says how many of the training records were bad, as a share of all, and where they are listed;
/// prints nothing where none was.
void print_bad_records(std::ostream& out, const RunDirectory& run, const Session& session,
                       const BadRecords& bad);

/// Shows the accuracy by source and three answers to held-out questions.
void print_results(std::ostream& out, const Session& session, const ValidationResult& result);

}  // namespace tributary::train
