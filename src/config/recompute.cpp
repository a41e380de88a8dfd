#include "config/recompute.h"

#include <algorithm>

namespace tributary::config {
namespace {

constexpr std::string_view kMlp = ".mlp";

}  // namespace

std::string word_of(const ModuleRecompute& item) {
  return item.level == RecomputePlan::kSelective ? item.module + std::string(kMlp) : item.module;
}

ModuleRecompute recompute_of_word(std::string_view word) {
  if (!word.ends_with(kMlp)) return {std::string(word), RecomputePlan::kFull};
  word.remove_suffix(kMlp.size());
  return {std::string(word), RecomputePlan::kSelective};
}

RecomputePlan level_of(std::span<const ModuleRecompute> items, std::string_view module) {
  const auto item = std::ranges::find(items, module, &ModuleRecompute::module);
  return item == items.end() ? RecomputePlan::kNone : item->level;
}

std::vector<ModuleRecompute> run_again(std::span<const ModuleRecompute> items,
                                       std::span<const std::string> offloaded) {
  std::vector<ModuleRecompute> all(items.begin(), items.end());
  for (const std::string& module : offloaded) all.push_back({module, RecomputePlan::kFull});
  return all;
}

}  // namespace tributary::config
