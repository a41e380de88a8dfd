#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/loader/sample_bytes.h"
#include "data/loader/sample_reader.h"

namespace tributary::data {

/// Appends a sample that this rank has read, and what it met on the way, to a message for others.
void append_read(std::string& message, const ReadSample& read, MediaRows rows);

/// Reads all samples of a message, in its order.
///
/// errors: Fault::kBug when it is cut
[[nodiscard]] std::vector<ReadSample> take_read(std::string_view message);

}  // namespace tributary::data
