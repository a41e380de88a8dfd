#include "core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace tributary {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

std::uint64_t hash_text(std::string_view text) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace

std::uint64_t mix_bits(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t first,
                           std::uint64_t second)
    : key_(mix_bits(seed + kGolden)) {
  key_ = mix_bits(key_ ^ hash_text(purpose));
  key_ = mix_bits(key_ + kGolden * (first + 1));
  key_ = mix_bits(key_ + kGolden * (second + 1));
}

std::uint64_t RandomStream::next() { return mix_bits(key_ + kGolden * ++counter_); }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  TRIB_CHECK(bound > 0, .what = "core: random number below 0 was asked for");
  const std::uint64_t reject_below = (0 - bound) % bound;  // 2^64 mod bound
  for (;;) {
    const std::uint64_t value = next();
    if (value >= reject_below) return value % bound;
  }
}

std::int64_t RandomStream::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

KeyedPermutation::KeyedPermutation(std::uint64_t key, std::uint64_t size)
    : key_(mix_bits(key)),
      size_(size),
      half_bits_(static_cast<unsigned>(std::bit_width(size | 1) + 1) / 2) {
  TRIB_CHECK(size > 0, .what = "core: permutation of nothing");
}

std::uint64_t KeyedPermutation::at(std::uint64_t position) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = position >> half_bits_;
    std::uint64_t right = position & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = mix_bits(key_ + kGolden * (round + 1) + right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    position = left << half_bits_ | right;
  } while (position >= size_);
  return position;
}

}  // namespace tributary
