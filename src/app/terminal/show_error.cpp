#include "app/terminal/show_error.h"

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

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

/// A part of an error and its label; the first one, which says what happened, has none.
struct LabelledPart {
  std::string_view label;
  std::string_view text;
};

/// Cuts an error of one line, without its place in the source, at the labels of its parts.
std::vector<LabelledPart> split_error(std::string_view error) {
  constexpr std::array<std::string_view, 4> kLabels{"where", "found", "expected", "fix"};
  std::string_view rest = trimmed(error.substr(0, find_place(error)));
  std::vector<LabelledPart> parts;
  std::string_view label;
  for (const std::string_view next : kLabels) {
    const std::string separator = str("; ", next, ": ");
    const std::size_t at = rest.find(separator);
    if (at == std::string_view::npos) continue;
    parts.push_back({label, trimmed(rest.substr(0, at))});
    rest.remove_prefix(at + separator.size());
    label = next;
  }
  parts.push_back({label, rest});
  return parts;
}

}  // namespace

std::string lay_out_error(std::string_view error, const ErrorStyle& style) {
  if (!style.in_lines) return std::string(error);
  std::string text;
  for (const auto& [label, part] : split_error(error)) {
    if (!label.empty()) text += str("\n  ", label, std::string(10 - label.size(), ' '));
    if (label.empty() && style.with_colour)
      text += str("\033[1;31m", part, "\033[0m");
    else if (label == "fix" && style.with_colour)
      text += str("\033[1;32m", part, "\033[0m");
    else
      text += part;
  }
  const std::size_t place = find_place(error);
  if (style.with_place && place < error.size()) text += str("\n  source    ", error.substr(place));
  return text;
}

Json error_json(std::string_view error, int exit_code) {
  Json parts;
  for (const auto& [label, text] : split_error(error)) {
    std::string_view part = text;
    if (label.empty()) {
      for (const std::string_view fault : {"input", "resource"})
        if (part.starts_with(str(fault, " error: "))) parts["fault"] = fault;
      if (part.starts_with("bug: ")) parts["fault"] = "bug";
      if (parts.contains("fault")) part.remove_prefix(part.find(": ") + 2);
    }
    parts[label.empty() ? "what" : std::string(label)] = part;
  }
  if (const std::size_t place = find_place(error); place < error.size())
    parts["source"] = error.substr(place + 1, error.size() - place - 2);
  return {{"error", std::move(parts)}, {"exit_code", exit_code}};
}

void show_error(std::string_view error, int exit_code) {
  if (shows_json())
    return log_note(error_json(error, exit_code)
                        .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  log_note(lay_out_error(error, {.in_lines = is_terminal,
                                 .with_colour = !is_dumb && std::getenv("NO_COLOR") == nullptr,
                                 .with_place = is_verbose()}));
}

}  // namespace tributary::app
