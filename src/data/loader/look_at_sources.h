#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/run/run_config.h"
#include "data/loader/sample_encoder.h"
#include "data/loader/source_files.h"

namespace tributary::data {

/// Looks at 64 training records of each source, spread over its file, for what a run leaves out:
/// samples that are too long, and keys that nothing reads. Returns a sentence for each finding, and
/// adds these keys to `unread_keys`, as `<source> <key>`.
///
/// errors: Fault::kInput with ExitCode::kDataLimit when a source has no more records than these and
///         all are too long
/// cost:   tokenises them and reads their image headers, in the calling thread
[[nodiscard]] std::vector<std::string> look_at_sources(
    const config::DataSection& data, const std::vector<std::unique_ptr<SourceFiles>>& sources,
    const SampleEncoder& encoder, std::set<std::string>& unread_keys);

/// Refuses sources with a training sample that is too long: what `data.too_long: refuse` asks for.
///
/// errors: Fault::kInput with ExitCode::kDataLimit and the first of these records
/// cost:   tokenises every record and reads its image headers, on `data.workers` threads
void refuse_too_long(const config::DataSection& data,
                     const std::vector<std::unique_ptr<SourceFiles>>& sources,
                     const SampleEncoder& encoder);

}  // namespace tributary::data
