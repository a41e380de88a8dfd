#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tributary::app {

/// Checks before the work begins that an output can be written. An empty name means no output.
///
/// inputs: files that the command reads; empty names are ignored
/// errors: Fault::kInput where the output is one of the inputs, which would be lost;
///         Fault::kResource where it cannot be written
void check_output(const std::string& output, const std::vector<std::string>& inputs);

/// errors: Fault::kResource where it cannot be written
void write_output(const std::string& output, std::string_view text);

}  // namespace tributary::app
