#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace tributary {

/// Takes the front of a text up to a separator, which is dropped, or else all of it.
[[nodiscard]] inline std::string_view take_until(char separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view front = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return front;
}

/// A text without `blanks` at its ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The parts of a text, one more than it has separators, each without `blanks` at its ends.
[[nodiscard]] inline std::vector<std::string_view> split_at(char separator, std::string_view text,
                                                            std::string_view blanks = "") {
  const auto separators = static_cast<std::size_t>(std::ranges::count(text, separator));
  std::vector<std::string_view> parts(separators + 1);
  for (std::string_view& part : parts) part = trimmed(take_until(separator, text), blanks);
  return parts;
}

}  // namespace tributary
