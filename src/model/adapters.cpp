#include <algorithm>

#include "model/model.h"

namespace tributary::model {

std::shared_ptr<const parallel::AdapterRules> adapter_rules(const config::ModelSection& section) {
  if (!section.has_adapters()) return nullptr;
  return std::make_shared<const parallel::AdapterRules>(parallel::AdapterRules{
      .rank = section.adapter.rank,
      .scale = config::adapter_scale(section.adapter),
      .has_magnitude = section.adapter.kind == config::AdapterKind::kDora,
      .is_wanted = [section](std::string_view module, std::string_view name) {
        return config::has_adapter(section, module, name);
      }});
}

ModelLayout one_rank_layout(const config::ModelSection& section) {
  parallel::Layout layout;
  layout.adapters = adapter_rules(section);
  return layout;
}

bool trains(const config::ModelSection& section, const parallel::Unit& unit) {
  if (section.has_adapters()) return unit.is_adapter();
  return std::ranges::find(section.freeze, unit.module()) == section.freeze.end();
}

std::vector<config::LinearMap> list_linear_maps(const config::ModelConfig& config) {
  config::ModelSection everywhere;
  everywhere.adapter.kind = config::AdapterKind::kLora;
  everywhere.adapter.rank = 1;
  constexpr std::string_view kDown = ".lora_A.weight";
  std::vector<config::LinearMap> maps;
  const std::unique_ptr<Model> hollow = make_model(config, one_rank_layout(everywhere));
  for (const auto& unit : hollow->units()) {
    if (!unit->is_adapter()) continue;
    for (std::size_t i = 0; i + 1 < unit->parameters().size(); i += 2) {
      const parallel::Parameter& down = *unit->parameters()[i];
      const parallel::Parameter& up = *unit->parameters()[i + 1];
      maps.push_back({.module = unit->module(),
                      .name = down.name.substr(0, down.name.size() - kDown.size()),
                      .in = down.shape[1],
                      .out = up.shape[0]});
    }
  }
  return maps;
}

}  // namespace tributary::model
