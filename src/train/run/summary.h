#pragma once

#include <iosfwd>

#include "train/loop.h"

namespace tributary::train {

/// Writes summary.json, and after a run that came to its end predictions.jsonl with its pictures.
void write_summary(const RunDirectory& run, const Session& session, const Loop& loop,
                   Loop::End end);

/// Shows the accuracy by source and three answers to held-out questions.
void print_results(std::ostream& out, const Session& session, const ValidationResult& result);

}  // namespace tributary::train
