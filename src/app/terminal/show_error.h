#pragma once

#include <string>
#include <string_view>

namespace tributary::app {

/// How an error is shown.
struct ErrorStyle {
  bool in_lines = false;     // one line per part; else unchanged
  bool with_colour = false;  // with in_lines: what and fix in colour
  bool with_place = false;   // with in_lines: also the source line that raised it
};

/// Lays out an error of one line, `what; where: ...; found: ...; expected: ...; fix: ... [file:1]`.
/// In lines it leaves out the place in the source, unless the style asks for it.
[[nodiscard]] std::string lay_out_error(std::string_view error, const ErrorStyle& style);

/// Writes an error to standard error. On a terminal it has one line per part, colour unless
/// NO_COLOR is set or the terminal is dumb, and with `--verbose` the place in the source. Elsewhere
/// it is unchanged.
void show_error(std::string_view error);

/// Whether `--verbose` was given: output then has details that are left out otherwise.
[[nodiscard]] inline bool& is_verbose() {
  static bool given = false;
  return given;
}

}  // namespace tributary::app
