#include "app/cli/planning/show_quantities.h"

#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "app/report/html.h"
#include "core/text.h"

namespace tributary::app {
namespace {

std::string fixed(double value, int decimals) {
  return str(std::fixed, std::setprecision(decimals), value);
}

/// A value below 1000 with three digits.
std::string three_digits(double value) {
  int decimals = 2;
  while (decimals > 0 && std::round(value * std::pow(10, decimals)) >= 1e3) --decimals;
  return fixed(value, decimals);
}

}  // namespace

std::string in_time(Nanoseconds time) { return show_time(1e-9 * static_cast<double>(time.count)); }

std::string in_percent(double share, int decimals) { return fixed(100 * share, decimals) + " %"; }

std::string in_gibibytes(Bytes bytes) {
  return fixed(static_cast<double>(bytes.count) / (1 << 30), 2) + " GiB";
}

std::string in_thousands(double count) {
  constexpr std::array<const char*, 4> kUnits{"", " k", " M", " G"};
  std::size_t unit = 0;
  for (; count >= 999.5 && unit + 1 < kUnits.size(); ++unit) count /= 1000;
  return three_digits(count) + kUnits[unit];
}

std::string counted(std::int64_t count, const std::string& noun) {
  return str(count, ' ', noun, count == 1 ? "" : "s");
}

std::size_t characters_of(const std::string& text) {
  std::size_t length = 0;  // continuation bytes of UTF-8 have no width
  for (const char c : text) length += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return length;
}

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::size_t length = characters_of(text);
  const std::string space(length < width ? width - length : 0, ' ');
  return to_the_right ? space + text : text + space;
}

std::string wrapped(std::string_view text, std::size_t indent) {
  std::istringstream words{std::string(text)};
  std::string lines;
  std::size_t column = indent;
  for (std::string word; words >> word;) {
    const bool is_first = lines.empty();
    if (!is_first && column + 1 + word.size() > kLineColumns) {
      lines += '\n' + std::string(indent, ' ') + word;
      column = indent + word.size();
    } else {
      lines += (is_first ? "" : " ") + word;
      column += (is_first ? 0 : 1) + word.size();
    }
  }
  return lines;
}

}  // namespace tributary::app
