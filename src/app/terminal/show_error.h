#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

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

/// The same error as an object: `error` with `fault`, `what`, `where`, `found`, `expected`, `fix`
/// and `source`, as far as it has them, and `exit_code`.
[[nodiscard]] Json error_json(std::string_view error, int exit_code);

/// Writes an error to standard error. On a terminal it has one line per part, colour unless
/// NO_COLOR is set or the terminal is dumb, and with `--verbose` the place in the source. Elsewhere
/// it is unchanged; under `--json` it is the object of error_json, on one line.
void show_error(std::string_view error, int exit_code);

/// Whether `--verbose` was given: output then has details that are left out otherwise.
[[nodiscard]] inline bool& is_verbose() {
  static bool given = false;
  return given;
}

/// Whether errors are for a program: `--json` was given, and this is no rank of a launcher, which
/// reads the text of its ranks.
[[nodiscard]] inline bool& shows_json() {
  static bool given = false;
  return given;
}

}  // namespace tributary::app
