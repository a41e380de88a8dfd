#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace tributary {

/// How many problems a test draws: `max` with TRIB_TEST_FULL=1 (`make test-full`), else a
/// quarter.
inline std::uint64_t draws(std::uint64_t max) {
  const char* full = std::getenv("TRIB_TEST_FULL");
  return full != nullptr && std::string_view(full) == "1" ? max : max / 4;
}

}  // namespace tributary
