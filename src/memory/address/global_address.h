#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "core/result.h"

namespace tributary::memory {

/// The kind of memory that a segment lies in.
enum class Tier : std::uint8_t { kDram = 0, kHbm = 1 };

[[nodiscard]] constexpr std::string_view name_of(Tier tier) {
  return tier == Tier::kDram ? "dram" : "hbm";
}

/// The place of a byte in the pool: tier, process, and offset in that process's segment.
///
///   63 62 | 61 60 | 59 ... 44 | 43 ... 0
///    0  1 | tier  |  process  |  offset
///
/// The tag 01 makes every address non-canonical on x86-64, so that a stray dereference faults. It
/// is a type of its own without a conversion to a pointer. An address says where; which object lies
/// there, and whether it still does, is said by the generation in a handle.
///
/// source: FlowTrain, section 4 (two regions [B, B + P * C)), with C = 2^44 and P = 2^16
class GlobalAddress {
 public:
  static constexpr unsigned kOffsetBits = 44;
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{1} << kOffsetBits;

  /// errors: Refusal when `offset` lies outside a segment of 2^44 bytes
  static Result<GlobalAddress> make(Tier tier, std::uint16_t process, std::uint64_t offset);
  /// errors: Refusal when the tag or the tier is none
  static Result<GlobalAddress> from_bits(std::uint64_t bits);

  [[nodiscard]] static constexpr bool is_valid(std::uint64_t bits) {
    return (bits >> 62) == 1 && ((bits >> 60) & 3) <= 1;
  }
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }
  [[nodiscard]] constexpr Tier tier() const { return static_cast<Tier>((bits_ >> 60) & 3); }
  [[nodiscard]] constexpr std::uint16_t process() const {
    return static_cast<std::uint16_t>(bits_ >> kOffsetBits);
  }
  [[nodiscard]] constexpr std::uint64_t offset() const { return bits_ & (kSegmentBytes - 1); }

  /// errors: Refusal when the sum leaves the segment
  [[nodiscard]] Result<GlobalAddress> plus(std::uint64_t bytes) const;

  friend constexpr auto operator<=>(GlobalAddress, GlobalAddress) = default;
  /// Prints as 0x4000300000010000.
  friend std::ostream& operator<<(std::ostream& out, GlobalAddress address);

 private:
  constexpr explicit GlobalAddress(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_;
};

}  // namespace tributary::memory
