#include "data/text/piece_cache.h"

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace tributary::data {
namespace {

constexpr std::size_t kLongestPiece = 48;

/// Two places for each piece, so that two common words seldom compete.
template <std::size_t kPlaces>
std::array<std::size_t, 2> places_of(std::string_view piece) {
  const std::size_t hash = std::hash<std::string_view>()(piece);
  return {hash % kPlaces, hash / kPlaces % kPlaces};
}

}  // namespace

struct PieceCache::Entry {
  std::string piece;
  std::vector<std::int32_t> ids;
};

PieceCache::PieceCache() : places_(kPlaces) {}

PieceCache::~PieceCache() {
  for (const auto& place : places_) delete place.load(std::memory_order_relaxed);
}

std::span<const std::int32_t> PieceCache::find(std::string_view piece) const {
  for (const std::size_t place : places_of<kPlaces>(piece)) {
    const Entry* entry = places_[place].load(std::memory_order_acquire);
    if (entry != nullptr && entry->piece == piece) return entry->ids;
  }
  return {};
}

void PieceCache::remember(std::string_view piece, std::span<const std::int32_t> ids) {
  if (piece.size() > kLongestPiece) return;
  for (const std::size_t place : places_of<kPlaces>(piece)) {
    const Entry* held = places_[place].load(std::memory_order_acquire);
    if (held != nullptr) continue;
    auto fresh = std::make_unique<const Entry>(
        Entry{std::string(piece), std::vector<std::int32_t>(ids.begin(), ids.end())});
    if (places_[place].compare_exchange_strong(held, fresh.get(), std::memory_order_release)) {
      (void)fresh.release();
      return;
    }
  }
}

}  // namespace tributary::data
