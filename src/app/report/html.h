#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace tributary::app {

/// Escapes a text for HTML content or a quoted attribute; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string html(std::string_view text);

/// JSON for inside a <script> element: it has no `<` and no line separator.
[[nodiscard]] std::string script_json(const Json& json);

// Numbers for people.
[[nodiscard]] std::string show_count(double count);       // 12,345
[[nodiscard]] std::string show_percent(double fraction);  // 94.1 %
[[nodiscard]] std::string show_score(double score);       // 0.500
[[nodiscard]] std::string show_duration(double seconds);  // 4 min 1 s
[[nodiscard]] std::string show_time(double seconds);      // four digits: 238.7 s, 12.35 ms
[[nodiscard]] std::string show_bytes(double bytes);       // 1.10 GiB
[[nodiscard]] std::string show_number(double number);     // four digits

}  // namespace tributary::app
