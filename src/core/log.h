#pragma once

#include <string_view>

namespace tributary {

/// Writes one line to standard error, whole, from any thread.
void log_note(std::string_view text);
/// As log_note, with `warning: ` in front: something that was asked for is done in another way, or
/// is at risk.
void log_warning(std::string_view text);
/// Whether standard error takes a line within `seconds`: a full pipe that nobody reads takes none.
/// For a thread that must not wait, to ask before it writes.
[[nodiscard]] bool log_takes_a_line(double seconds);

}  // namespace tributary
