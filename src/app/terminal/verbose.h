#pragma once

namespace tributary::app {

/// Whether `--verbose` was given: output then has details that are left out otherwise.
[[nodiscard]] inline bool& is_verbose() {
  static bool given = false;
  return given;
}

}  // namespace tributary::app
