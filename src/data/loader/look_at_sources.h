#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/source_files.h"

namespace tributary::data {

/// Looks at kLookedAt training records of each source, spread over its file, and estimates from
/// them what the run trains on and leaves out. Adds the keys that nothing reads to
/// `unread_keys`, each as `<source> <key>`.
///
/// errors: Fault::kInput with ExitCode::kDataLimit when a source has no more than kLookedAt
///         records, which are all too long
/// cost:   tokenises the records and reads their image headers, in the calling thread
[[nodiscard]] DataLook look_at_sources(const config::DataSection& data,
                                       const std::vector<std::unique_ptr<SourceFiles>>& sources,
                                       const SampleEncoder& encoder,
                                       std::set<std::string>& unread_keys);

/// Refuses sources with a training sample that is too long, for `data.too_long: refuse`.
///
/// errors: Fault::kInput with ExitCode::kDataLimit, naming the first records that are too long
/// cost:   tokenises every record and reads its image headers, on `data.workers` threads
void refuse_too_long(const config::DataSection& data,
                     const std::vector<std::unique_ptr<SourceFiles>>& sources,
                     const SampleEncoder& encoder);

}  // namespace tributary::data
