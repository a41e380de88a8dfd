#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::config {

/// Whole numbers from `first` to `last`, both of them included.
struct NumberRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Parses `7` and `0-3`; null unless the numbers ascend and are below 2^20.
[[nodiscard]] std::optional<NumberRange> parse_range(std::string_view text);
[[nodiscard]] std::string write_range(const NumberRange& range);

/// Parses `0-3,8` to 0 1 2 3 8; null unless ranks ascend, come once and are below 2^20.
[[nodiscard]] std::optional<std::vector<std::int64_t>> parse_ranks(std::string_view text);
[[nodiscard]] std::string write_ranks(const std::vector<std::int64_t>& ranks);

}  // namespace tributary::config
