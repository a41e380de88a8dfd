#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace tributary {

/// A counter-based random stream: its values depend only on its key, never on who drew before.
///
/// The key is (seed, purpose, two indices such as data set epoch and sample id), so a draw is the
/// same whatever the rank, thread or order.
/// source: Salmon 2011, "Parallel random numbers: as easy as 1, 2, 3"; the mixing function is
///         Steele 2014, "Fast splittable pseudorandom number generators" (splitmix64)
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed, std::string_view purpose = {}, std::uint64_t first = 0,
                        std::uint64_t second = 0);

  [[nodiscard]] std::uint64_t next();
  /// Uniform in [0, bound), without bias; bound above 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
  /// Uniform whole number in [low, high].
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high);
  /// Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();
  /// Standard normal (Box-Muller).
  [[nodiscard]] double normal();

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  template <class T>
  [[nodiscard]] T& pick(std::span<T> items) {
    return items[below(items.size())];
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

/// Mixes 64 bits so that each input bit moves each output bit (splitmix64's finaliser).
[[nodiscard]] std::uint64_t mix_bits(std::uint64_t value);

/// A permutation of [0, size) that is computed, not stored: position -> element.
///
/// source: Black 2002, "Ciphers with arbitrary finite domains" (Feistel network, cycle walking)
class KeyedPermutation {
 public:
  /// errors: Fault::kBug when size is 0
  KeyedPermutation(std::uint64_t key, std::uint64_t size);
  [[nodiscard]] std::uint64_t at(std::uint64_t position) const;

 private:
  std::uint64_t key_;
  std::uint64_t size_;
  unsigned half_bits_;
};

}  // namespace tributary
