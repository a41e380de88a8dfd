#include "config/run/problems.h"

#include <algorithm>

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

}  // namespace

void Problems::raise_if_any(const std::string& where) const {
  if (problems_.empty()) return;
  if (problems_.size() == 1) TRIB_RAISE(Fault::kInput, problems_.front());
  constexpr std::size_t kMostShown = 40;
  const std::size_t shown = std::min(problems_.size(), kMostShown);
  std::string list;
  for (std::size_t i = 0; i < shown; ++i) list += str("\n  ", i + 1, ". ", one_line(problems_[i]));
  if (shown < problems_.size()) list += str("\n  and ", problems_.size() - shown, " more");
  TRIB_RAISE(Fault::kInput, .what = str("config: ", problems_.size(), " problems"), .where = where,
             .found = list + "\n ");
}

}  // namespace tributary::config
