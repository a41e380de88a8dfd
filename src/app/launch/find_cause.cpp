#include "app/launch/find_cause.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

#include "core/error.h"
#include "core/exit_code.h"

namespace tributary::app {
namespace {

/// Where in the line an error begins; npos where none does.
std::size_t find_mark(const std::string& line) {
  std::size_t first = std::string::npos;
  for (const char* mark : {"input error: ", "resource error: ", "bug: "})
    first = std::min(first, line.find(mark));
  return first;
}

/// The last error of a rank with its continuation lines, which begin with a space; else empty.
std::string last_error(const RankEnd& end) {
  for (std::size_t i = end.lines.size(); i-- > 0;) {
    if (find_mark(end.lines[i]) == std::string::npos) continue;
    std::string text = end.lines[i];
    while (++i < end.lines.size() && end.lines[i].starts_with(' ')) text += "\n" + end.lines[i];
    return text;
  }
  return "";
}

std::string without_prefix(const std::string& error) {
  const std::size_t mark = find_mark(error);
  return mark == std::string::npos ? error : error.substr(mark);
}

/// The step of a line `[rank 3 step 1207] ...`.
std::optional<std::int64_t> step_in(const std::string& line) {
  const std::size_t at = line.find(" step ");
  if (!line.starts_with("[rank ") || at == std::string::npos) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = line.data() + at + std::strlen(" step ");
  const auto [stopped, failure] = std::from_chars(begin, line.data() + line.size(), step);
  return failure == std::errc{} && *stopped == ']' ? std::optional(step) : std::nullopt;
}

std::string describe_end(const RankEnd& end) {
  if (end.exit_code > 128)
    return str("rank ", end.rank, " was killed by signal ", end.exit_code - 128, " (",
               strsignal(end.exit_code - 128), ")");
  if (end.exit_code == 127) return str("rank ", end.rank, " could not be started");
  return str("rank ", end.rank, " left with exit code ", end.exit_code);
}

}  // namespace

bool is_error_line(const std::string& line) {
  const std::size_t mark = find_mark(line);
  return mark == 0 || (mark != std::string::npos && line.starts_with("[rank "));
}

AttemptEnd find_cause(std::span<const RankEnd> ends) {
  const auto order = [](const RankEnd& end) {
    return std::tuple(end.exit_code == 0, end.was_stopped, cause_order(end.exit_code),
                      end.at_seconds, end.rank);
  };
  const auto cause = std::min_element(
      ends.begin(), ends.end(),
      [&](const RankEnd& one, const RankEnd& other) { return order(one) < order(other); });
  TRIB_CHECK(cause != ends.end() && cause->exit_code != 0, .what = "app: no rank has failed");

  AttemptEnd attempt{.exit_code = cause->exit_code, .cause = describe_end(*cause)};
  std::string said = last_error(*cause);
  for (const RankEnd& end : ends) {
    const std::string line = last_error(end);
    // A killed rank prints no error, but the others report that it is gone.
    if (said.empty() && cause->exit_code > 128) said = line;
    if (const auto step = step_in(line)) attempt.step = std::max(attempt.step.value_or(0), *step);
  }
  if (!said.empty()) attempt.cause += ": " + said;
  attempt.error = without_prefix(said);
  return attempt;
}

std::deque<std::string> without_error(const std::deque<std::string>& lines,
                                      const std::string& error) {
  std::deque<std::string> others;
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t next = i + 1;
    std::string block = lines[i];
    while (next < lines.size() && lines[next].starts_with(' ')) block += "\n" + lines[next++];
    if (error.empty() || without_prefix(block) != error)
      others.insert(others.end(), lines.begin() + static_cast<std::ptrdiff_t>(i),
                    lines.begin() + static_cast<std::ptrdiff_t>(next));
    i = next;
  }
  return others;
}

}  // namespace tributary::app
