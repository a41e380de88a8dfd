#pragma once

#include <cstdint>

#include "data/loader/pass_batch.h"
#include "data/loader/sample_reader.h"

namespace tributary::data {

/// Reads the sample of a slot, without the rows of some modalities. What goes wrong is raised where
/// the sample is handed out.
void fill_slot(const SampleReader& reader, Slot& slot, ModalitySet without);

/// How many media of a sample were decoded; those of a pair are there twice.
[[nodiscard]] std::int64_t count_decoded(const EncodedSample& sample);

/// Reads the samples of a batch again, whole, that lack rows which nobody else makes
/// (LoaderOptions::lacks), on threads of its own.
void fill_lacking(const SampleReader& reader, const Batch& batch, const LoaderOptions& options);

}  // namespace tributary::data
