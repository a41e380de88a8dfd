#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace tributary::app {

/// Numbers from a text file, one row per line, or from a Python sequence.
struct NumberTable {
  std::string source;                // the file, or the argument, for messages
  bool has_lines = true;             // messages name a row by its line, else by its index
  std::vector<std::string> columns;  // names from the header line; empty where there is none
  std::int64_t width = 0;            // numbers in a row
  std::vector<double> values;        // [rows, width], each at least 0 and finite

  [[nodiscard]] std::int64_t rows() const { return std::ssize(values) / width; }
  /// Where a row stands: file:line, or argument[index].
  [[nodiscard]] std::string place_of(std::int64_t row) const;
};

/// Reads numbers separated by commas, the same number in every line. The first line is a header
/// when none of its fields is a number. Only blank lines may follow the last row.
///
/// units:  path "-" is the standard input
/// errors: Fault::kInput naming file and line: no such file, no row, a row of another width, or a
///         field that is not a number, below 0, not finite or above kMaxWhole
[[nodiscard]] NumberTable read_table(const std::string& path);
[[nodiscard]] NumberTable read_table(std::istream& in, const std::string& source);

inline constexpr double kMaxWhole = 9007199254740992;  // 2^53: doubles hold all whole numbers below

}  // namespace tributary::app
