#pragma once

#include <span>

#include "data/sample.h"
#include "train/run/run_directory.h"
#include "train/start/session.h"

namespace tributary::train {

/// Tokens of a sample as text: neighbours of one kind are a piece, and a long run of the same token
/// (the place of a picture) is one with the number of its repeats.
///
/// shape: returns a list of {"tokens": [texts], "target": bool} and {..., "repeats": count}; a
///        token that ends inside a character has the text "", and the next one the whole character
[[nodiscard]] Json describe_tokens(const data::Tokenizer& tokenizer,
                                   const data::EncodedSample& sample);

/// Writes samples.jsonl and samples/: a few samples of each source from the first step, as the
/// model sees them. For one rank; it reads their records again.
void write_first_samples(const RunDirectory& run, const Session& session,
                         std::span<const data::EncodedSample> samples);

}  // namespace tributary::train
