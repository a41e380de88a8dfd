#include "data/text/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "core/random.h"

namespace tributary::data {
namespace {

constexpr std::int32_t kNowhere = -1;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(const std::array<std::int32_t, 256>& byte_ids,
                       std::span<const MergeRule> rules)
    : byte_ids_(byte_ids), slots_(std::bit_ceil(2 * rules.size() + 2)) {
  std::uint32_t rank = 0;
  for (const MergeRule& rule : rules) {
    const std::uint64_t pair = pair_of(rule.left, rule.right);
    std::size_t place = mix_bits(pair) & (slots_.size() - 1);
    while (slots_[place].pair != kNoPair) place = (place + 1) & (slots_.size() - 1);
    slots_[place] = {pair, rank++, rule.joined};
  }
}

const MergeTable::Slot* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t place = mix_bits(pair) & (slots_.size() - 1);
  while (slots_[place].pair != pair) {
    if (slots_[place].pair == kNoPair) return nullptr;
    place = (place + 1) & (slots_.size() - 1);
  }
  return &slots_[place];
}

/// Puts the merge of the symbol at `place` with its right neighbour on the heap, if there is one.
void MergeTable::push(std::int32_t place, Scratch& scratch) const {
  const Scratch::Symbol& symbol = scratch.symbols[place];
  if (symbol.after == kNowhere) return;
  const Slot* rule = find(symbol.id, scratch.symbols[symbol.after].id);
  if (rule == nullptr) return;
  scratch.heap.push_back(static_cast<std::uint64_t>(rule->rank) << 32 |
                         static_cast<std::uint32_t>(place));
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
}

void MergeTable::merge(std::string_view piece, Scratch& scratch,
                       std::vector<std::int32_t>& ids) const {
  const auto size = static_cast<std::int32_t>(piece.size());
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.heap.clear();
  for (std::int32_t i = 0; i < size; ++i) {
    symbols.push_back(
        {byte_ids_[static_cast<std::uint8_t>(piece[i])], i - 1, i + 1 == size ? kNowhere : i + 1});
  }
  for (std::int32_t i = 0; i + 1 < size; ++i) push(i, scratch);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
    const std::uint64_t top = scratch.heap.back();
    scratch.heap.pop_back();
    const auto place = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    Scratch::Symbol& symbol = symbols[place];
    if (symbol.id == kNowhere || symbol.after == kNowhere) continue;
    // The neighbours may have changed since this merge was put on the heap.
    const Slot* rule = find(symbol.id, symbols[symbol.after].id);
    if (rule == nullptr || rule->rank != top >> 32) continue;
    Scratch::Symbol& eaten = symbols[symbol.after];
    symbol.id = rule->joined;
    symbol.after = eaten.after;
    eaten.id = kNowhere;
    if (symbol.after != kNowhere) symbols[symbol.after].before = place;
    push(place, scratch);
    if (symbol.before != kNowhere) push(symbol.before, scratch);
  }
  for (std::int32_t i = size == 0 ? kNowhere : 0; i != kNowhere; i = symbols[i].after) {
    ids.push_back(symbols[i].id);
  }
}

}  // namespace tributary::data
