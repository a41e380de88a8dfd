#pragma once

namespace tributary::app {

/// Whether `--verbose` was given: what is folded otherwise is then shown.
[[nodiscard]] inline bool& is_verbose() {
  static bool given = false;
  return given;
}

}  // namespace tributary::app
