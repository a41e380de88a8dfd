#pragma once

#include <sstream>
#include <string>

namespace tributary {

/// Joins values into one text, as an output stream would print them.
template <class... Values>
[[nodiscard]] std::string str(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return std::move(out).str();
}

}  // namespace tributary
