#include "memory/address/global_address.h"

#include <gtest/gtest.h>
#include <set>

#include "core/text.h"

namespace tributary::memory {
namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 44;

TEST(GlobalAddress, IsABijectionOnTheEdgesOfItsFields) {  // I3
  std::set<std::uint64_t> seen;
  for (const Tier tier : {Tier::kDram, Tier::kHbm})
    for (const int number : {0, 1, 0x5555, 0x7fff, 0x8000, 0xffff})
      for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, kEnd / 2, kEnd - 1}) {
        const auto process = static_cast<std::uint16_t>(number);
        const GlobalAddress address = GlobalAddress::make(tier, process, offset).value();
        EXPECT_EQ(address.tier(), tier);
        EXPECT_EQ(address.process(), process);
        EXPECT_EQ(address.offset(), offset);
        EXPECT_EQ(GlobalAddress::from_bits(address.bits()).value(), address);
        EXPECT_TRUE(seen.insert(address.bits()).second);
        // Canonical are addresses whose bits 63 to 47 (56 with five levels) are all equal.
        for (const int top : {47, 56}) {
          const std::int64_t sign = static_cast<std::int64_t>(address.bits()) >> top;
          EXPECT_TRUE(sign != 0 && sign != -1) << address;
        }
      }
  EXPECT_EQ(seen.size(), 48);
}

TEST(GlobalAddress, RefusesOtherTagsAndTiers) {
  for (std::uint64_t top = 0; top < 16; ++top) {
    const bool is_valid = top == 0b0100 || top == 0b0101;
    EXPECT_EQ(GlobalAddress::from_bits(top << 60 | 1).has_value(), is_valid) << top;
  }
  EXPECT_FALSE(GlobalAddress::from_bits(0));
  EXPECT_FALSE(GlobalAddress::make(Tier::kDram, 0, kEnd));
}

TEST(GlobalAddress, AddsOnlyInsideItsSegment) {
  const GlobalAddress address = GlobalAddress::make(Tier::kHbm, 7, kEnd - 10).value();
  EXPECT_EQ(address.plus(9).value().offset(), kEnd - 1);
  EXPECT_EQ(address.plus(9).value().process(), 7);
  for (const std::uint64_t bytes : {std::uint64_t{10}, kEnd, ~std::uint64_t{0}})
    EXPECT_FALSE(address.plus(bytes)) << bytes;
  EXPECT_EQ(str(GlobalAddress::make(Tier::kDram, 3, 0x10000).value()), "0x4000300000010000");
}

}  // namespace
}  // namespace tributary::memory
