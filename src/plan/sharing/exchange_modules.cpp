#include <bit>
#include <optional>

#include "plan/sharing/stage_list.h"

namespace tributary::plan {
namespace {

/// Replaces two stages; an empty one vanishes, and y may be a new one.
std::vector<ModuleSet> replace(const std::vector<ModuleSet>& stages, std::size_t x, ModuleSet at_x,
                               std::size_t y, ModuleSet at_y) {
  std::vector<ModuleSet> next;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const ModuleSet modules = stage == x ? at_x : stage == y ? at_y : stages[stage];
    if (modules != 0) next.push_back(modules);
  }
  if (y == stages.size()) next.push_back(at_y);
  return next;
}

class Exchange {
 public:
  Exchange(const std::vector<ModuleSet>& ancestors, StageValues& values, StageList list)
      : ancestors_(ancestors), values_(values), list_(std::move(list)) {}

  StageList run() {
    while (improve()) {
    }
    return list_;
  }

 private:
  /// Applies the first exchange that helps; false when none does.
  bool improve() {
    for (std::size_t x = 0; x < list_.stages.size(); ++x) {
      for (ModuleSet rest = list_.stages[x]; rest != 0; rest &= rest - 1) {
        const ModuleSet module = rest & (~rest + 1);
        for (std::size_t y = 0; y <= list_.stages.size(); ++y) {
          if (y == x) continue;
          const ModuleSet there = y < list_.stages.size() ? list_.stages[y] : 0;
          if (apply(x, list_.stages[x] & ~module, y, there | module)) return true;
          for (ModuleSet others = y > x ? there : 0; others != 0; others &= others - 1) {
            const ModuleSet other = others & (~others + 1);
            if (apply(x, (list_.stages[x] & ~module) | other, y, (there & ~other) | module)) {
              return true;
            }
          }
        }
      }
    }
    return false;
  }

  bool apply(std::size_t x, ModuleSet at_x, std::size_t y, ModuleSet at_y) {
    const std::int64_t before =
        value(list_.stages[x]) + (y < list_.stages.size() ? value(list_.stages[y]) : 0);
    const std::int64_t bound =
        (at_x == 0 ? 0 : values_.lower_bound(at_x)) + values_.lower_bound(at_y);
    if (bound >= before) return false;
    std::optional<std::vector<ModuleSet>> next =
        order_stages(ancestors_, replace(list_.stages, x, at_x, y, at_y));
    if (!next) return false;
    const std::int64_t first = value(at_x);
    if (first >= before || !values_.is_below(at_y, before - first)) return false;
    list_.time += first + value(at_y) - before;
    list_.stages = std::move(*next);
    return true;
  }
  [[nodiscard]] std::int64_t value(ModuleSet modules) {
    return modules == 0 ? 0 : values_.value(modules);
  }

  const std::vector<ModuleSet>& ancestors_;
  StageValues& values_;
  StageList list_;
};

}  // namespace

StageList exchange_modules(const std::vector<ModuleSet>& ancestors, StageValues& values,
                           StageList list) {
  return Exchange(ancestors, values, std::move(list)).run();
}

}  // namespace tributary::plan
