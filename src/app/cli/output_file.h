#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tributary::app {

/// Refuses an output before there is work for it; an empty name is none.
///
/// inputs: files that the command reads; empty names are none
/// errors: Fault::kInput where the output is one of the inputs, which would be lost;
///         Fault::kResource where it could not be written
void check_output(const std::string& output, const std::vector<std::string>& inputs);

/// errors: Fault::kResource where it cannot be written
void write_output(const std::string& output, std::string_view text);

}  // namespace tributary::app
