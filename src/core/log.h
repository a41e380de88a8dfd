#pragma once

#include <string_view>

namespace tributary {

/// Writes one line to standard error, whole, from any thread.
void log_note(std::string_view text);
/// The same with `warning: ` in front: something was asked for and is done otherwise, or is at
/// risk.
void log_warning(std::string_view text);

}  // namespace tributary
