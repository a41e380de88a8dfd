#pragma once

#include <cstdlib>
#include <string_view>

namespace tributary::memory {

/// How many random cases a test takes: `few`, or `all` with TRIB_TEST_FULL=1.
[[nodiscard]] inline int cases(int few, int all) {
  const char* full = std::getenv("TRIB_TEST_FULL");
  return full != nullptr && std::string_view(full) == "1" ? all : few;
}

}  // namespace tributary::memory
