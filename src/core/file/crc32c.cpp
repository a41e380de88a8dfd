#include "core/file/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tributary {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

/// A linear map of the 32-bit register: column i is the image of bit i.
using Matrix = std::array<std::uint32_t, 32>;

std::uint32_t image_of(const Matrix& map, std::uint32_t value) {
  std::uint32_t image = 0;
  for (std::size_t bit = 0; value != 0; ++bit, value >>= 1)
    if ((value & 1) != 0) image ^= map[bit];
  return image;
}

Matrix compose(const Matrix& after, const Matrix& before) {
  Matrix product{};
  for (std::size_t bit = 0; bit < 32; ++bit) product[bit] = image_of(after, before[bit]);
  return product;
}

/// The map by which `bytes` zero bytes change the register, by repeated squaring.
Matrix advance_by_zeros(std::uint64_t bytes) {
  Matrix power{};  // one zero byte
  Matrix result{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t value = std::uint32_t{1} << bit;
    result[bit] = value;
    power[bit] = kTable[value & 0xff] ^ (value >> 8);
  }
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = compose(power, result);
    power = compose(power, power);
  }
  return result;
}

#if defined(__x86_64__)

constexpr std::size_t kLane = 4096;  // bytes of each of the three streams

/// Advances a register over kLane zero bytes with four look-ups.
class LaneShift {
 public:
  LaneShift() {
    const Matrix map = advance_by_zeros(kLane);
    for (std::size_t place = 0; place < 4; ++place)
      for (std::uint32_t byte = 0; byte < 256; ++byte)
        table_[place][byte] = image_of(map, byte << (8 * place));
  }
  [[nodiscard]] std::uint32_t operator()(std::uint32_t crc) const {
    return table_[0][crc & 0xff] ^ table_[1][(crc >> 8) & 0xff] ^ table_[2][(crc >> 16) & 0xff] ^
           table_[3][crc >> 24];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_{};
};

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(
    std::span<const std::byte> bytes, std::uint32_t before) {
  static const LaneShift shift;
  std::uint64_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  // The instruction has a latency of three cycles and a throughput of one: three streams at once.
  for (; left >= 3 * kLane; left -= 3 * kLane, at += 3 * kLane) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      crc = _mm_crc32_u64(crc, load_word(at + i));
      second = _mm_crc32_u64(second, load_word(at + kLane + i));
      third = _mm_crc32_u64(third, load_word(at + 2 * kLane + i));
    }
    const std::uint32_t joined =
        shift(static_cast<std::uint32_t>(crc)) ^ static_cast<std::uint32_t>(second);
    crc = shift(joined) ^ static_cast<std::uint32_t>(third);
  }
  for (; left >= 8; left -= 8, at += 8) crc = _mm_crc32_u64(crc, load_word(at));
  auto narrow = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = _mm_crc32_u8(narrow, static_cast<unsigned char>(*at));
  return ~narrow;
}

#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes)
    crc = kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

std::uint32_t combine_crc32c(std::uint32_t first, std::uint32_t second,
                             std::uint64_t second_bytes) {
  return image_of(advance_by_zeros(second_bytes), first) ^ second;
}

std::string crc_text(std::uint32_t crc) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += kHex[(crc >> shift) & 15];
  return text;
}

}  // namespace tributary
