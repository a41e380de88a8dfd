#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/family/model_config.h"

namespace tributary::config {

inline constexpr std::string_view kBackboneModule = "backbone";
/// The module that the short form `parallel.vision_stages` places.
inline constexpr std::string_view kStagedModule = "vision";

enum class ModuleRole { kEncoder, kProjector, kBackbone };

struct KnownModule {
  std::string_view name;
  ModuleRole role;
};

/// The visible list of modules that are trained, along the way of the features: configurations name
/// them, and each encoder has a section `parallel.<module>`.
[[nodiscard]] std::span<const KnownModule> known_modules();

/// Null when no model that is trained has such a module.
[[nodiscard]] const KnownModule* find_known_module(std::string_view name);

/// The names in the order of the list, and those of encoders alone, ascending.
[[nodiscard]] std::vector<std::string> known_module_names();
[[nodiscard]] std::vector<std::string> encoder_names();

/// What placement needs to know of a module in front of the backbone.
struct FrontModule {
  std::string name;
  ModuleRole role = ModuleRole::kProjector;
  std::int64_t layers = 0;     // of an encoder; a projector has none that could be cut into stages
  std::int64_t heads = 0;      // of a layer
  std::int64_t mlp_width = 0;  // of a layer
  std::string feeds;           // the module that takes its features

  [[nodiscard]] bool is_encoder() const { return role == ModuleRole::kEncoder; }
};

/// The modules of a model in front of its backbone, each encoder before its projector.
[[nodiscard]] std::vector<FrontModule> front_modules(const ModelConfig& model);

/// Null when the list has no module of that name.
[[nodiscard]] const FrontModule* find_module(std::span<const FrontModule> modules,
                                             std::string_view name);

}  // namespace tributary::config
