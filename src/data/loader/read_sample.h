#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/loader/sample_bytes.h"
#include "data/loader/sample_reader.h"

namespace tributary::data {

/// Appends what a rank has read to its message for others.
void append_read(std::string& message, const ReadSample& read, MediaRows rows);

/// All that a message holds, in its order.
/// errors: Fault::kBug when it is cut
[[nodiscard]] std::vector<ReadSample> take_read(std::string_view message);

}  // namespace tributary::data
