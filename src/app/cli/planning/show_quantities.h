#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/units.h"

namespace tributary::app {

/// Maximum width of a line of the planning verbs; a single longer word may exceed it.
inline constexpr std::size_t kLineColumns = 120;

// How the planning verbs print quantities.
/// Four digits of the largest unit: 238.7 s, 12.35 ms, 820.0 us, 15 ns.
[[nodiscard]] std::string in_time(Nanoseconds time);
[[nodiscard]] std::string in_percent(double share, int decimals);  // 94.1 %
[[nodiscard]] std::string in_gibibytes(Bytes bytes);               // 1.10 GiB
/// Three digits: 248 k, 1.24 M, 812.
[[nodiscard]] std::string in_thousands(double count);
/// A number and its noun: 1 microbatch, 12 microbatches.
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

/// The width of a text on a terminal: characters, not bytes.
[[nodiscard]] std::size_t characters_of(const std::string& text);
/// Fills a text with spaces, behind it or in front, up to a width.
[[nodiscard]] std::string padded(const std::string& text, std::size_t width,
                                 bool to_the_right = false);

/// Breaks a text into lines of at most kLineColumns; lines after the first begin with `indent`
/// spaces. The caller prints those of the first line. A word that is longer gets a line of its own.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent);

}  // namespace tributary::app
