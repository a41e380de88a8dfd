#pragma once

#include <algorithm>
#include <vector>

#include "schedule/pipeline/check_schedule.h"

namespace tributary::schedule {

/// The first action of that kind in a list.
inline ActionList::iterator find(ActionList& list, Op op) {
  return std::ranges::find(list, op, &Action::op);
}

/// The rules that a schedule breaks once `spoil` has changed its lists.
template <class Spoil>
std::vector<Rule> rules_broken(Schedule schedule, const Spoil& spoil) {
  spoil(schedule.lists);
  std::vector<Rule> rules;
  for (const Violation& each : check_schedule(schedule, {})) rules.push_back(each.rule);
  return rules;
}

}  // namespace tributary::schedule
