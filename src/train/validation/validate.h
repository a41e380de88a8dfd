#pragma once

#include <cstdint>
#include <functional>

#include "train/start/session.h"
#include "train/validation/validation_result.h"

namespace tributary::train {

struct ValidationOptions {
  std::int64_t samples_per_source = 0;  // the first ones; 0: all
  bool blind = false;
  std::int64_t pictures_per_source = 0;        // first predictions that keep their pictures
  std::int64_t wrong_pictures_per_source = 0;  // wrong ones that do, the first among them
  double temperature = 0;                      // of answers; 0: greedy
  double top_p = 1;
  std::uint64_t seed = 0;
  std::function<bool()> should_stop = {};  // asked before each round; empty: never
};

/// Scores every held-out sample by its loss and by generation after its prompt. An answer is right
/// when its text, without white space at both ends, equals one of the references; the scores of
/// validation.metrics come beside that. It may have validation.max_new_tokens tokens; where that is
/// 0, a quarter and at least 8 more than the longest expected answer of all that is asked, and at
/// most 1024.
///
/// Samples are dispatched to the replicas in rounds (held_out_rounds.h). One that its reader cannot
/// read counts as refused on all ranks.
///
/// cost: a replica packs its samples of a round to batch.capacity_tokens and decodes all of the
///       pack together; replicas decode in step
/// collective: over all ranks
[[nodiscard]] ValidationResult validate(const Session& session, const ValidationOptions& options);

}  // namespace tributary::train
