#include "config/run/run_field.h"
#include "config/run/run_keys.h"

namespace tributary::config {

std::vector<Key> drill_keys() {
  using R = RunConfig;
  using D = DrillSection;
  return {
      key<&R::drill, &D::fault>(
          {.path = "drill.fault",
           .meaning = "A fault on purpose, to rehearse recovery: the rank is killed (SIGKILL), "
                      "stopped (SIGSTOP), or raises an error. It strikes once, and never after a "
                      "restart by the launcher."}),
      key<&R::drill, &D::rank>({.path = "drill.rank",
                                .meaning = "The rank that is struck.",
                                .unit = "rank",
                                .range = {0, 65535}}),
      key<&R::drill, &D::step>({.path = "drill.step",
                                .meaning = "The step in which it is struck.",
                                .unit = "step",
                                .range = {1, 1'000'000'000'000}}),
      key<&R::drill, &D::section>(
          {.path = "drill.section",
           .meaning = "Where in the step: as it begins to compute forward, backward or the update; "
                      "with the first collective of backward under way; before action "
                      "`drill.action` of its list; or when its part of the checkpoint is written "
                      "and nothing is committed."}),
      key<&R::drill, &D::action>({.path = "drill.action",
                                  .meaning = "With `drill.section: action`: which, from 0.",
                                  .unit = "action",
                                  .range = {0, 1'000'000'000}}),
      key<&R::drill, &D::after_seconds>(
          {.path = "drill.after_seconds",
           .meaning = "How long the rank rests there before; longer than "
                      "`parallel.heartbeat_seconds`, the others know and name the section.",
           .unit = "s",
           .range = {0, 86400}}),
  };
}

}  // namespace tributary::config
