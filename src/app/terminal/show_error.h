#pragma once

#include <string>
#include <string_view>

namespace tributary::app {

/// How an error is shown.
struct ErrorStyle {
  bool in_lines = false;     // a line for each part; else as it stands
  bool with_colour = false;  // the fix in colour
  bool with_place = false;   // in lines: the source line that raised it, too
};

/// Lays out an error of one line, `what; where: ...; found: ...; expected: ...; fix: ... [file:1]`,
/// with its fix last. Of an error in lines, the place in the source is left out unless asked for.
[[nodiscard]] std::string lay_out_error(std::string_view error, const ErrorStyle& style);

/// Writes an error to standard error: in lines on a terminal, with colour unless NO_COLOR is set or
/// the terminal is dumb, and with the place in the source under `--verbose`; anywhere else as it
/// stands.
void show_error(std::string_view error);

}  // namespace tributary::app
