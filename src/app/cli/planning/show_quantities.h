#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/units.h"

namespace tributary::app {

/// Columns that a line of a planning verb has at most, where its words allow.
inline constexpr std::size_t kLineColumns = 120;

// Quantities as the planning verbs print them.
/// Four digits of the largest unit: 238.7 s, 12.35 ms, 820.0 us, 15 ns.
[[nodiscard]] std::string in_time(Nanoseconds time);
[[nodiscard]] std::string in_percent(double share, int decimals);  // 94.1 %
[[nodiscard]] std::string in_gibibytes(Bytes bytes);               // 1.10 GiB
/// Three digits: 248 k, 1.24 M, 812.
[[nodiscard]] std::string in_thousands(double count);
/// A number and its noun: 1 microbatch, 12 microbatches.
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

/// Text over lines of at most kLineColumns, each after the first behind `indent` spaces; a word
/// that is longer stands alone. The first line begins at column `indent` too.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent);

}  // namespace tributary::app
