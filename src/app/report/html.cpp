#include "app/report/html.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.h"

namespace tributary::app {
namespace {

template <class... Values>
std::string print(const char* form, Values... values) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), form, values...);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// The text with every byte that is not UTF-8 replaced by U+FFFD.
std::string as_utf8(std::string_view text) {
  const std::string quoted =
      Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : as_utf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '\0':
        escaped += "\xEF\xBF\xBD";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string script_json(const Json& json) {
  std::string safe;
  // ensure_ascii also writes U+2028 and U+2029 as escapes
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace))
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

std::string show_count(double count) {
  std::string digits = print("%.0f", std::abs(count));
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return count < 0 ? str("-", digits) : digits;
}

std::string show_percent(double fraction) { return print("%.1f %%", 100 * fraction); }

std::string show_score(double score) { return print("%.3f", score); }

std::string show_duration(double seconds) {
  if (seconds < 10) return print("%.2f s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return str(whole, " s");
  if (whole < 3600) return str(whole / 60, " min ", whole % 60, " s");
  return str(whole / 3600, " h ", whole % 3600 / 60, " min");
}

std::string show_time(double seconds) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits{
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  const auto* unit = kUnits.begin();
  while (std::next(unit) != kUnits.end() && seconds < unit->first) ++unit;
  const double value = seconds / unit->first;
  int decimals = seconds < 1e-6 ? 0 : 3;
  while (decimals > 0 && std::round(value * std::pow(10, decimals)) >= 1e4) --decimals;
  return str(std::fixed, std::setprecision(decimals), value, ' ', unit->second);
}

std::string show_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return unit == 0 ? print("%.0f B", bytes) : print("%.2f %s", bytes, kUnits[unit]);
}

std::string show_number(double number) { return print("%.4g", number); }

}  // namespace tributary::app
