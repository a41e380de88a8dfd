#include "app/requests/read_table.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "core/file/given_file.h"
#include "core/split_text.h"

namespace tributary::app {
namespace {

constexpr std::string_view kBetween = " \t;";  // separators that people use in place of commas
constexpr std::string_view kBlanks = " \t\r";

std::optional<double> to_number(std::string_view field) {
  if (field.starts_with('+')) field.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (end != field.data() + field.size() || field.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return HUGE_VAL;
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// Adds the rows of a file, line by line.
class TableReader {
 public:
  explicit TableReader(NumberTable& table) : table_(table) {}

  void take(std::string_view line) {
    ++line_;
    if (line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (trimmed(line, kBlanks).empty()) {
      if (blank_ == 0) blank_ = line_;
      return;
    }
    TRIB_REQUIRE(blank_ == 0, .what = "app: blank line between rows",
                 .where = str(table_.source, ":", blank_), .fix = "remove it");
    const std::vector<std::string_view> fields = split_at(',', line, kBlanks);
    if (line_ == 1) {
      table_.width = std::ssize(fields);
      if (is_header(fields)) {
        table_.columns.assign(fields.begin(), fields.end());
        return;
      }
    }
    TRIB_REQUIRE(std::ssize(fields) == table_.width, .what = "app: row of another width",
                 .where = here(), .found = str(fields.size(), " numbers"),
                 .expected = str(table_.width, ", as in line 1"),
                 .fix = "give every row as many, commas between them");
    for (std::size_t column = 0; column < fields.size(); ++column) {
      table_.values.push_back(to_load(fields[column], column));
    }
  }

 private:
  [[nodiscard]] std::string here() const { return str(table_.source, ":", line_); }

  static bool is_header(const std::vector<std::string_view>& fields) {
    for (const std::string_view field : fields) {
      // Numbers with blanks between them are not the name of a column.
      if (field.empty() || to_number(field.substr(0, field.find_first_of(kBetween)))) return false;
    }
    return true;
  }

  [[nodiscard]] double to_load(std::string_view field, std::size_t column) const {
    const std::optional<double> number = to_number(field);
    const auto where = [&] {
      return table_.width == 1 ? here() : str(here(), " column ", column + 1);
    };
    TRIB_REQUIRE(number.has_value(), .what = "app: not a number", .where = where(),
                 .found = escaped(field), .expected = "numbers separated by commas, one row a line",
                 .fix = field.find_first_of(kBetween) != std::string_view::npos
                            ? "put commas between the numbers"
                            : "");
    TRIB_REQUIRE(*number >= 0 && *number <= kMaxWhole, .what = "app: number out of range",
                 .where = where(), .found = escaped(field), .expected = "0 to 2^53");
    return *number;
  }

  NumberTable& table_;
  std::int64_t line_ = 0;
  std::int64_t blank_ = 0;  // number of the first blank line; 0: there was none
};

}  // namespace

std::string NumberTable::place_of(std::int64_t row) const {
  if (!has_lines) return str(source, "[", row, "]");
  return str(source, ":", row + (columns.empty() ? 1 : 2));
}

NumberTable read_table(std::istream& in, const std::string& source) {
  NumberTable table;
  table.source = source;
  TableReader reader(table);
  for (std::string line; std::getline(in, line);) reader.take(line);
  TRIB_REQUIRE(!in.bad(), .what = "app: file cannot be read", .where = source);
  TRIB_REQUIRE(!table.values.empty(), .what = "app: file holds no rows", .where = str(source, ":1"),
               .found = table.columns.empty() ? "an empty file" : "a header alone",
               .expected = "one row of numbers for each item");
  return table;
}

NumberTable read_table(const std::string& path) {
  if (path == "-") return read_table(std::cin, "standard input");
  std::istringstream in(read_given_file(
      path, kAnySize,
      {.what = "app: file cannot be read", .expected = "rows of numbers, a comma between them"}));
  return read_table(in, path);
}

}  // namespace tributary::app
