#include "config/plan/stage_units.h"

#include "config/reading/ranges.h"

namespace tributary::config {

std::optional<StageLayers> parse_stage(const std::vector<std::string>& units) {
  StageLayers stage;
  for (const std::string& unit : units) {
    const auto range = parse_range(unit);
    if (unit == "embed" && stage.empty()) {
      stage.embed = true;
    } else if (unit == "head" && !stage.head) {
      stage.head = true;
    } else if (range && stage.layers == 0 && !stage.head) {
      stage.first = range->first;
      stage.layers = range->last - range->first + 1;
    } else {
      return std::nullopt;
    }
  }
  if (stage.empty()) return std::nullopt;
  return stage;
}

std::vector<std::string> write_stage(const StageLayers& stage) {
  std::vector<std::string> units;
  if (stage.embed) units.emplace_back("embed");
  if (stage.layers > 0) units.push_back(write_range({stage.first, stage.first + stage.layers - 1}));
  if (stage.head) units.emplace_back("head");
  return units;
}

}  // namespace tributary::config
