#include "config/reading/problems.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace tributary::config {
namespace {

std::string one_line(const ErrorParts& problem) {
  std::string_view what = problem.what;
  constexpr std::string_view kRoom = "config: ";  // the headline says it
  if (what.starts_with(kRoom)) what.remove_prefix(kRoom.size());
  std::string line(what);
  const auto add = [&line](std::string_view label, const std::string& part) {
    if (!part.empty()) line += str("; ", label, part);
  };
  add("where: ", problem.where);
  add("found: ", problem.found);
  add("expected: ", problem.expected);
  add("fix: ", problem.fix);
  return line;
}

bool is_number(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
}

/// The end of the part that starts at `begin`: the next dot outside quotes.
std::size_t end_of_part(const std::string& where, std::size_t begin) {
  bool in_quotes = false;
  for (std::size_t i = begin; i < where.size(); ++i) {
    if (where[i] == '"') in_quotes = !in_quotes;
    if (where[i] == '.' && !in_quotes) return i;
  }
  return where.size();
}

/// The place without the numbers of list items: units.3.name gives units.*.name.
std::string without_items(const std::string& where) {
  std::string text;
  for (std::size_t begin = 0; begin <= where.size();) {
    const std::size_t end = end_of_part(where, begin);
    const std::string part = where.substr(begin, end - begin);
    text += str(begin > 0 ? "." : "", begin > 0 && is_number(part) ? "*" : part);
    begin = end + 1;
  }
  return text;
}

/// A line for each problem; items of a list that have the same problem share a line.
std::vector<std::string> lines_of(const std::vector<ErrorParts>& problems) {
  std::vector<std::pair<std::string, std::int64_t>>
      lines;  // text -> how many more problems are like it
  std::map<std::string, std::size_t> line_of;
  for (const ErrorParts& problem : problems) {
    ErrorParts anywhere = problem;
    anywhere.where = without_items(problem.where);
    const auto [found, is_new] = line_of.emplace(one_line(anywhere), lines.size());
    if (is_new) {
      lines.emplace_back(one_line(problem), 0);
    } else {
      ++lines[found->second].second;
    }
  }
  std::vector<std::string> all;
  for (const auto& [line, more] : lines)
    all.push_back(more == 0 ? line : str(line, "; the same in ", more + 1, " items"));
  return all;
}

}  // namespace

std::string path_part(const std::string& name) {
  return name.find('.') != std::string::npos || is_number(name) ? escaped(name) : name;
}

void Problems::raise_if_any(const std::string& where) const {
  if (problems_.empty()) return;
  if (problems_.size() == 1) TRIB_RAISE(Fault::kInput, problems_.front());
  constexpr std::size_t kMaxShown = 40;
  const std::vector<std::string> lines = lines_of(problems_);
  const std::size_t shown = std::min(lines.size(), kMaxShown);
  std::string list;
  for (std::size_t i = 0; i < shown; ++i) list += str("\n  ", i + 1, ". ", lines[i]);
  if (shown < lines.size()) list += str("\n  and ", lines.size() - shown, " more");
  TRIB_RAISE(Fault::kInput, .what = str("config: ", problems_.size(), " problems"), .where = where,
             .found = list + "\n ");
}

}  // namespace tributary::config
