#include "app/launch/find_cause.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

#include "core/cause_order.h"
#include "core/error.h"

namespace tributary::app {
namespace {

/// The last line of a rank that says what went wrong; empty when there is none.
std::string last_error(const RankEnd& end) {
  for (auto line = end.lines.rbegin(); line != end.lines.rend(); ++line)
    for (const char* mark : {"input error: ", "resource error: ", "bug: "})
      if (line->find(mark) != std::string::npos) return *line;
  return "";
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
    // Killed ranks say nothing; the others have seen them go.
    if (said.empty() && cause->exit_code > 128) said = line;
    if (const auto step = step_in(line)) attempt.step = std::max(attempt.step.value_or(0), *step);
  }
  if (!said.empty()) attempt.cause += ": " + said;
  return attempt;
}

}  // namespace tributary::app
