#pragma once

#include <string_view>

namespace tributary {

/// Writes one line to standard error, whole, from any thread.
void log_note(std::string_view text);
/// As log_note, with `warning: ` in front: something that was asked for is done in another way, or
/// is at risk.
void log_warning(std::string_view text);

}  // namespace tributary
