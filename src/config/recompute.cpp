#include "config/recompute.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/text.h"

namespace tributary::config {
namespace {

/// Behind the name of the module.
constexpr std::pair<std::string_view, RecomputePlan> kEndings[] = {
    {".mlp", RecomputePlan::kSelective}, {".attn", RecomputePlan::kAttention}};

}  // namespace

std::int64_t count_every(std::int64_t every, std::int64_t first, std::int64_t layers) {
  const auto below = [&](std::int64_t number) { return (number + every - 1) / every; };
  return below(first + layers) - below(first);
}

std::string word_of(const ModuleRecompute& item) {
  std::string word = item.module;
  for (const auto& [ending, level] : kEndings)
    if (item.level == level) word += ending;
  return item.every == 1 ? word : str(word, "/", item.every);
}

std::optional<ModuleRecompute> recompute_of_word(std::string_view word) {
  ModuleRecompute item;
  if (const std::size_t slash = word.find('/'); slash != std::string_view::npos) {
    const char* end = word.data() + word.size();
    const auto [stopped, failure] = std::from_chars(word.data() + slash + 1, end, item.every);
    const bool is_number = failure == std::errc{} && stopped == end;
    if (!is_number || item.every < 2 || item.every > kMaxEvery) return std::nullopt;
    word = word.substr(0, slash);
  }
  for (const auto& [ending, level] : kEndings) {
    if (!word.ends_with(ending)) continue;
    item.level = level;
    word.remove_suffix(ending.size());
    break;
  }
  item.module = word;
  return item;
}

ModuleRecompute recompute_of(std::span<const ModuleRecompute> items, std::string_view module) {
  const auto item = std::ranges::find(items, module, &ModuleRecompute::module);
  return item == items.end() ? ModuleRecompute{std::string(module), RecomputePlan::kNone} : *item;
}

std::vector<ModuleRecompute> run_again(std::span<const ModuleRecompute> items,
                                       std::span<const std::string> offloaded) {
  std::vector<ModuleRecompute> all(items.begin(), items.end());
  for (const std::string& module : offloaded) all.push_back({module, RecomputePlan::kFull});
  return all;
}

}  // namespace tributary::config
