#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/text/tokenizer_file.h"

namespace tributary::data {

/// The merges of a byte-level BPE, and their application to one piece of text.
///
/// source: Sennrich 2016, "Neural machine translation of rare words with subword units", section
///         3.2: the earliest rule among the neighbours first, leftmost first
class MergeTable {
 public:
  /// Memory that merge() reuses from call to call; one per thread.
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::int32_t before;
      std::int32_t after;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;  // rank of the rule, then place: smallest on top
  };

  MergeTable(const std::array<std::int32_t, 256>& byte_ids, std::span<const MergeRule> rules);

  /// Appends the ids of `piece`, any bytes.
  ///
  /// cost: O(n log n) for n bytes
  void merge(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  struct Slot {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = 0;
    std::int32_t joined = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  [[nodiscard]] const Slot* find(std::int32_t left, std::int32_t right) const;
  void push(std::int32_t place, Scratch& scratch) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace tributary::data
