#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::config {

/// What the layers of a module run again in backward instead of keeping it: nothing, their MLPs,
/// all of a layer, or their attention.
enum class RecomputePlan { kNone, kSelective, kFull, kAttention };

/// How many of `layers` layers from number `first` on have a number that `every` divides.
[[nodiscard]] std::int64_t count_every(std::int64_t every, std::int64_t first, std::int64_t layers);

/// The recompute of one module: an item of `model.recompute`.
struct ModuleRecompute {
  std::string module;
  RecomputePlan level = RecomputePlan::kFull;
  std::int64_t every = 1;  // of layers whose number in the module it divides; others keep all

  friend bool operator==(const ModuleRecompute&, const ModuleRecompute&) = default;
};

/// The word of an item in a configuration: `backbone`, `backbone.mlp` where it is selective,
/// `backbone.attn` of the attention, and `backbone/2` or `backbone.mlp/2` of every second layer.
[[nodiscard]] std::string word_of(const ModuleRecompute& item);
/// Null for an ending `/n` that is not a whole number from 2 to kMaxEvery.
[[nodiscard]] std::optional<ModuleRecompute> recompute_of_word(std::string_view word);
inline constexpr std::int64_t kMaxEvery = 1024;

/// What runs again of a module; none where no item names it.
[[nodiscard]] ModuleRecompute recompute_of(std::span<const ModuleRecompute> items,
                                           std::string_view module);

/// Everything that runs again in backward: the items, and all layers of offloaded modules.
[[nodiscard]] std::vector<ModuleRecompute> run_again(std::span<const ModuleRecompute> items,
                                                     std::span<const std::string> offloaded);

}  // namespace tributary::config
