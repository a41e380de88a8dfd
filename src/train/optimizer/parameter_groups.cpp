#include "train/optimizer/parameter_groups.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "core/name_pattern.h"
#include "core/nearest_name.h"

namespace tributary::train {
namespace {

bool group_matches(const config::ParameterGroupSection& group, std::string_view module,
                   const parallel::Parameter& parameter) {
  return group.match == module || matches_pattern(group.match, parameter.name);
}

}  // namespace

ParameterRule find_rule(const config::OptimizerSection& optimizer, std::string_view module,
                        const parallel::Parameter& parameter) {
  ParameterRule rule;
  rule.weight_decay = parameter.shape.size() > 1 ? optimizer.weight_decay : 0.0;
  for (const config::ParameterGroupSection& group : optimizer.groups) {
    if (!group_matches(group, module, parameter)) continue;
    rule.learning_rate_scale = group.learning_rate_scale;
    if (group.weight_decay >= 0) rule.weight_decay = group.weight_decay;
    break;
  }
  if (parameter.is_fixed) rule.weight_decay = 0;  // its gradient is 0 too
  return rule;
}

void check_groups(const config::OptimizerSection& optimizer,
                  std::span<const std::unique_ptr<parallel::Unit>> units) {
  for (const config::ParameterGroupSection& group : optimizer.groups) {
    bool used = false;
    std::vector<std::string> names;
    for (const auto& unit : units) {
      for (const auto& parameter : unit->parameters()) {
        names.push_back(parameter->name);
        used = used || group_matches(group, unit->module(), *parameter);
      }
    }
    const std::string nearest = nearest_name(group.match, names);
    TRIB_REQUIRE(used, .what = "train: parameter group matches nothing",
                 .where = "optimizer.groups", .found = str("match = ", group.match),
                 .expected =
                     "a module (vision, audio, projector, audio_projector, backbone) or a pattern "
                     "that fits the name of a parameter",
                 .fix = nearest.empty() ? "see `tributary checkpoint inspect` for the names"
                                        : str("did you mean ", nearest));
  }
}

}  // namespace tributary::train
