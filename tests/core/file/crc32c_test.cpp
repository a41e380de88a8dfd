#include "core/file/crc32c.h"

#include <gtest/gtest.h>
#include <vector>

#include "core/random.h"

namespace tributary {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, "crc32c_test");
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

TEST(Crc32c, GivesTheValuesOfTheStandard) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0x00})), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43U);
  std::vector<std::byte> rising(32);
  for (std::size_t i = 0; i < 32; ++i) rising[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
}

TEST(Crc32c, AgreesWithTheTableAtEveryLengthAndStart) {
  const std::vector<std::byte> bytes = random_bytes(40000, 1);
  const std::span<const std::byte> all(bytes);
  for (std::size_t length = 0; length < 300; ++length)
    EXPECT_EQ(crc32c(all.subspan(length % 9, length)),
              crc32c_by_table(all.subspan(length % 9, length)));
  for (const std::size_t length : {4095, 4096, 12287, 12288, 12289, 24576, 36900, 39990})
    EXPECT_EQ(crc32c(all.subspan(3, length), 77), crc32c_by_table(all.subspan(3, length), 77));
}

TEST(Crc32c, OfTwoPartsCombinesToTheWhole) {
  const std::vector<std::byte> bytes = random_bytes(5000, 2);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t cut : {0, 1, 7, 2048, 4999, 5000}) {
    const auto first = all.first(cut);
    const auto second = all.subspan(cut);
    EXPECT_EQ(combine_crc32c(crc32c(first), crc32c(second), second.size()), crc32c(all));
    EXPECT_EQ(crc32c(second, crc32c(first)), crc32c(all));
  }
}

TEST(Crc32c, PrintsEightDigits) { EXPECT_EQ(crc_text(0x0a1b2c3d), "0a1b2c3d"); }

}  // namespace
}  // namespace tributary
