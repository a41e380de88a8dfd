#pragma once

#include <gtest/gtest.h>
#include <string>

namespace tributary::config {

/// A text with `to` in place of `from`, which it has.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

}  // namespace tributary::config
