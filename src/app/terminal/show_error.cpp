#include "app/terminal/show_error.h"

#include <array>
#include <cstdlib>
#include <unistd.h>

#include "core/log.h"
#include "core/text.h"

namespace tributary::app {
namespace {

/// Where the place in the source, `[core/json.cpp:81]`, begins in an error; else its size.
std::size_t find_place(std::string_view error) {
  const std::size_t begin = error.rfind('[');
  if (!error.ends_with(']') || begin == std::string_view::npos) return error.size();
  const std::string_view place = error.substr(begin);
  return place.find(".cpp:") != std::string_view::npos ||
                 place.find(".h:") != std::string_view::npos
             ? begin
             : error.size();
}

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ') || text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string lay_out_error(std::string_view error, const ErrorStyle& style) {
  if (!style.in_lines) return std::string(error);
  const std::size_t place = find_place(error);
  std::string_view rest = trimmed(error.substr(0, place));
  std::string text;
  constexpr std::array<std::string_view, 4> kLabels{"where: ", "found: ", "expected: ", "fix: "};
  std::string_view label;  // of the part at the front of `rest`
  const auto add = [&](std::string_view part) {
    const bool is_fix = label == kLabels.back();
    const std::string name(label.substr(0, label.find(':')));
    if (!label.empty()) text += str("\n  ", name, std::string(10 - name.size(), ' '));
    if (label.empty() && style.with_colour)
      text += str("\033[1;31m", part, "\033[0m");
    else if (is_fix && style.with_colour)
      text += str("\033[1;32m", part, "\033[0m");
    else
      text += part;
  };
  for (const std::string_view next : kLabels) {
    const std::size_t at = rest.find(str("; ", next));
    if (at == std::string_view::npos) continue;
    add(trimmed(rest.substr(0, at)));
    rest.remove_prefix(at + 2 + next.size());
    label = next;
  }
  add(rest);
  if (style.with_place && place < error.size()) text += str("\n  source    ", error.substr(place));
  return text;
}

void show_error(std::string_view error) {
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  log_note(lay_out_error(error, {.in_lines = is_terminal,
                                 .with_colour = !is_dumb && std::getenv("NO_COLOR") == nullptr,
                                 .with_place = is_verbose()}));
}

}  // namespace tributary::app
