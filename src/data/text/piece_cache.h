#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tributary::data {

/// Remembers the ids of pieces that were tokenised before, because text repeats its words.
///
/// Any number of threads read and write at once, without locks. A place is filled once and keeps
/// its piece, so common words, which come early, stay. Results never depend on what is remembered.
/// owns: its entries, until destruction; at most kPlaces of them
class PieceCache {
 public:
  PieceCache();
  ~PieceCache();
  PieceCache(const PieceCache&) = delete;
  PieceCache& operator=(const PieceCache&) = delete;

  /// The ids of a piece; empty when it is not remembered (every piece has an id).
  [[nodiscard]] std::span<const std::int32_t> find(std::string_view piece) const;
  /// Remembers the ids if the piece is short and one of its two places is free.
  void remember(std::string_view piece, std::span<const std::int32_t> ids);

 private:
  struct Entry;
  static constexpr std::size_t kPlaces = std::size_t{1} << 16;

  std::vector<std::atomic<const Entry*>> places_;
};

}  // namespace tributary::data
