#include "data/demo/flat_png.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <zlib.h>

#include "core/error.h"

namespace tributary::data {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

constexpr std::size_t kShortestMatch = 4;
constexpr std::size_t kLongestMatch = 258;
constexpr std::size_t kFarthest = 32768;
constexpr std::size_t kPixelBytes = 3;

/// The first value of each deflate code, and how many bits follow the code.
struct Step {
  int first;
  int extra_bits;
};
constexpr std::array<Step, 29> kLengthSteps{
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};

class BitWriter {
 public:
  explicit BitWriter(Bytes8& out) : out_(out) {}

  void add(unsigned value, int bits) {  // lowest bit first
    held_ |= value << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8)
      out_.push_back(static_cast<std::uint8_t>(held_));
  }
  void add_code(unsigned code, int bits) {  // highest bit first
    while (bits > 0) add(code >> --bits & 1, 1);
  }
  void finish() {
    if (count_ > 0) add(0, 8 - count_);
  }

 private:
  Bytes8& out_;
  unsigned held_ = 0;
  int count_ = 0;
};

void add_symbol(BitWriter& bits, unsigned symbol) {
  if (symbol < 144)
    bits.add_code(0x30 + symbol, 8);
  else if (symbol < 256)
    bits.add_code(0x190 + symbol - 144, 9);
  else if (symbol < 280)
    bits.add_code(symbol - 256, 7);
  else
    bits.add_code(0xc0 + symbol - 280, 8);
}

void add_length(BitWriter& bits, int length) {
  std::size_t step = kLengthSteps.size() - 1;
  while (kLengthSteps[step].first > length) --step;
  add_symbol(bits, static_cast<unsigned>(257 + step));
  bits.add(static_cast<unsigned>(length - kLengthSteps[step].first), kLengthSteps[step].extra_bits);
}

void add_distance(BitWriter& bits, int distance) {
  const auto steps_back = static_cast<unsigned>(distance - 1);
  if (steps_back < 4) return bits.add_code(steps_back, 5);
  int extra_bits = 1;
  while (steps_back >> (extra_bits + 2) != 0) ++extra_bits;
  bits.add_code(static_cast<unsigned>(2 * extra_bits) + (steps_back >> extra_bits), 5);
  bits.add(steps_back & ((1U << extra_bits) - 1), extra_bits);
}

std::size_t repeat_length(const Bytes8& rows, std::size_t at, std::size_t distance) {
  if (distance > at || distance > kFarthest) return 0;
  const std::size_t max = std::min(kLongestMatch, rows.size() - at);
  std::size_t length = 0;
  while (length < max && rows[at + length] == rows[at + length - distance]) ++length;
  return length;
}

Bytes8 deflate(const Bytes8& rows, std::size_t row_bytes) {
  Bytes8 out{0x78, 0x01};
  BitWriter bits(out);
  bits.add(1, 1);  // the last block
  bits.add(1, 2);  // fixed code
  for (std::size_t at = 0; at < rows.size();) {
    const std::size_t left = repeat_length(rows, at, kPixelBytes);
    const std::size_t above = repeat_length(rows, at, row_bytes);
    const std::size_t length = std::max(left, above);
    if (length < kShortestMatch) {
      add_symbol(bits, rows[at++]);
      continue;
    }
    add_length(bits, static_cast<int>(length));
    add_distance(bits, static_cast<int>(left >= above ? kPixelBytes : row_bytes));
    at += length;
  }
  add_symbol(bits, 256);
  bits.finish();
  const uLong check = adler32(1, rows.data(), static_cast<uInt>(rows.size()));
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(check >> shift));
  return out;
}

void add_number(Bytes8& out, std::size_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

void add_chunk(Bytes8& out, std::string_view type, const Bytes8& data) {
  add_number(out, data.size());
  const std::size_t start = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), data.begin(), data.end());
  add_number(out, crc32(0, out.data() + start, static_cast<uInt>(out.size() - start)));
}

}  // namespace

std::vector<std::uint8_t> write_flat_png(const Picture& picture) {
  const std::size_t width_bytes = kPixelBytes * static_cast<std::size_t>(picture.width);
  TRIB_CHECK(picture.width > 0 && picture.height > 0 &&
                 picture.rgb.size() == width_bytes * static_cast<std::size_t>(picture.height),
             .what = "data: picture does not have the size it says",
             .found = str(picture.rgb.size(), " values, ", picture.width, " x ", picture.height));
  Bytes8 rows;
  rows.reserve(picture.rgb.size() + static_cast<std::size_t>(picture.height));
  for (auto row = picture.rgb.begin(); row != picture.rgb.end();
       row += static_cast<std::ptrdiff_t>(width_bytes)) {
    rows.push_back(0);  // no filter
    rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(width_bytes));
  }
  Bytes8 header;
  add_number(header, static_cast<std::size_t>(picture.width));
  add_number(header, static_cast<std::size_t>(picture.height));
  header.insert(header.end(), {8, 2, 0, 0, 0});  // 8 bits, RGB, deflate, filters, not interlaced
  Bytes8 out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  add_chunk(out, "IHDR", header);
  add_chunk(out, "IDAT", deflate(rows, width_bytes + 1));
  add_chunk(out, "IEND", {});
  return out;
}

}  // namespace tributary::data
