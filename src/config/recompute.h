#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::config {

/// What the layers of a module run again in backward instead of keeping it: nothing, their MLPs, or
/// all of a layer.
enum class RecomputePlan { kNone, kSelective, kFull };

/// The recompute of one module: an item of `model.recompute`.
struct ModuleRecompute {
  std::string module;
  RecomputePlan level = RecomputePlan::kFull;

  friend bool operator==(const ModuleRecompute&, const ModuleRecompute&) = default;
};

/// The word of an item in a configuration: `backbone`, or `backbone.mlp` where it is selective.
[[nodiscard]] std::string word_of(const ModuleRecompute& item);
[[nodiscard]] ModuleRecompute recompute_of_word(std::string_view word);

/// The level of a module; none where no item names it.
[[nodiscard]] RecomputePlan level_of(std::span<const ModuleRecompute> items,
                                     std::string_view module);

/// Everything that runs again in backward: the items, and all layers of offloaded modules.
[[nodiscard]] std::vector<ModuleRecompute> run_again(std::span<const ModuleRecompute> items,
                                                     std::span<const std::string> offloaded);

}  // namespace tributary::config
