#pragma once

#include <cstdint>
#include <vector>

#include "config/run/run_config.h"
#include "core/sample_shape.h"

namespace tributary::app {

/// Reads the global batches that a run trains on, in its order, from text and image headers alone.
///
/// shape:  returns [steps][batch.global_samples]
/// errors: Fault::kInput as data::Loader; Fault::kResource where a source cannot be read in time
/// cost:   a sample's text and headers; nothing is decoded
[[nodiscard]] std::vector<std::vector<SampleShape>> batches_of_run(const config::RunConfig& run,
                                                                   std::int64_t steps);

}  // namespace tributary::app
