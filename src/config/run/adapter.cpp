#include "config/run/adapter.h"

#include <algorithm>
#include <cmath>

#include "config/run/run_field.h"
#include "core/error.h"
#include "core/name_pattern.h"
#include "core/nearest_name.h"

namespace tributary::config {
namespace {

bool is_named_by(const std::string& target, std::string_view name) {
  return target == kAllLinear || target == name || name.ends_with("." + target) ||
         matches_pattern(target, name);
}

bool is_frozen(const ModelSection& model, std::string_view module) {
  return std::ranges::find(model.freeze, module) != model.freeze.end();
}

/// Refuses a target that names no map; for the nearest name, ends of names count as names.
void require_target(const std::string& target, std::span<const LinearMap> maps) {
  std::vector<std::string> names;
  for (const LinearMap& map : maps) {
    if (is_named_by(target, map.name)) return;
    names.push_back(map.name.substr(map.name.rfind('.') + 1));
    names.push_back(map.name);
  }
  const std::string nearest = nearest_name(target, names);
  TRIB_RAISE(Fault::kInput, .what = "config: adapter target names no linear map of the model",
             .where = "adapter.targets", .found = escaped(target),
             .expected = "all-linear, the end of a name such as q_proj, or a pattern",
             .fix = nearest.empty() ? str("for example ", names.empty() ? "" : names.back())
                                    : str("did you mean ", nearest));
}

}  // namespace

double adapter_scale(const AdapterSection& adapter) {
  const auto rank = static_cast<double>(adapter.rank);
  return adapter.alpha / (adapter.rslora ? std::sqrt(rank) : rank);
}

bool has_adapter(const ModelSection& model, std::string_view module, std::string_view name) {
  return model.has_adapters() && !is_frozen(model, module) &&
         std::ranges::any_of(model.adapter.targets,
                             [&](const std::string& target) { return is_named_by(target, name); });
}

ModelSection freeze_without_adapter(ModelSection model, std::span<const LinearMap> maps) {
  if (!model.has_adapters()) return model;
  for (const std::string& target : model.adapter.targets) require_target(target, maps);
  std::map<std::string, bool> trains;
  for (const LinearMap& map : maps)
    trains[map.module] = trains[map.module] || has_adapter(model, map.module, map.name);
  TRIB_REQUIRE(std::ranges::any_of(trains, [](const auto& each) { return each.second; }),
               .what = "config: no linear map has an adapter",
               .where = "adapter.targets, model.freeze",
               .found = "all targets lie in frozen modules",
               .expected = "a target in a module that is not frozen");
  for (const auto& [module, has_own] : trains)
    if (!has_own && !is_frozen(model, module)) model.freeze.push_back(module);
  return model;
}

std::map<std::string, double> adapter_shares(const ModelSection& model,
                                             std::span<const LinearMap> maps) {
  std::map<std::string, double> weights;
  std::map<std::string, double> shares;
  for (const LinearMap& map : maps) {
    weights[map.module] += static_cast<double>(map.in * map.out);
    if (has_adapter(model, map.module, map.name))
      shares[map.module] += static_cast<double>(model.adapter.rank * (map.in + map.out));
  }
  for (auto& [module, share] : shares) share /= weights.at(module);
  return shares;
}

std::string describe_adapter(const AdapterSection& adapter) {
  std::string text =
      str(names_of<AdapterKind>()[static_cast<std::size_t>(adapter.kind)], ", rank ", adapter.rank,
          ", alpha ", adapter.alpha, adapter.rslora ? ", rslora" : "", ", on ");
  for (const std::string& target : adapter.targets)
    text += str(&target == &adapter.targets.front() ? "" : ", ", target);
  return text;
}

}  // namespace tributary::config
