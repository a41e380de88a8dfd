#pragma once

#include <span>
#include <string>

#include "data/loader/loader.h"

namespace tributary::data {

/// Refuses to go on from a state that was made with another seed, mixture or data set, or whose
/// cursors do not add up. Keys in `accepted` may differ.
///
/// errors: Fault::kInput with ExitCode::kCheckpointRefused, naming the difference
void check_same_data(const LoaderState& saved, const LoaderState& own,
                     std::span<const std::string> accepted);

}  // namespace tributary::data
