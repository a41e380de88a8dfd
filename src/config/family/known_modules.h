#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/family/item_form.h"
#include "config/family/model_config.h"
#include "config/family/module_work.h"
#include "core/sample_shape.h"

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

/// What placement and balancing need to know of a module in front of the backbone.
struct FrontModule {
  std::string name;
  ModuleRole role = ModuleRole::kProjector;
  std::int64_t layers = 0;     // of an encoder; a projector has none that could be cut into stages
  std::int64_t heads = 0;      // of a layer
  std::int64_t mlp_width = 0;  // of a layer
  std::string feeds;           // the module that takes its features
  std::vector<Modality> takes = {};              // of an encoder, in the order of its rows
  std::string input_rows = {};                   // what they are called: patches
  std::int64_t row_width = 0;                    // values of each
  ItemForm item = {};                            // what it takes, of an encoder and behind it
  std::vector<std::int64_t> window_layers = {};  // that attend inside windows
  /// Its work on one item, without its name.
  ModuleWork (*work)(const ModelConfig& model, const Grid& item) = nullptr;

  [[nodiscard]] bool is_encoder() const { return role == ModuleRole::kEncoder; }
};

/// The modules of a model in front of its backbone, each encoder before its projector.
[[nodiscard]] std::vector<FrontModule> front_modules(const ModelConfig& model);

/// An encoder with the modules behind it that run on its features alone, or the backbone: what is
/// balanced as one.
struct ModuleChain {
  std::string name;                       // of the encoder, or of the backbone
  std::string rows;                       // what its inputs are called: patches, tokens
  std::vector<FrontModule> modules = {};  // along the way of the features; none: the backbone
};

/// The chains of a model, the backbone last.
[[nodiscard]] std::vector<ModuleChain> chains_of(const ModelConfig& model);

/// Null when the list has no module of that name.
[[nodiscard]] const FrontModule* find_module(std::span<const FrontModule> modules,
                                             std::string_view name);

}  // namespace tributary::config
