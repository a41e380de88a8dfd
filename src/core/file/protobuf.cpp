#include "core/file/protobuf.h"

#include <bit>

namespace tributary {
namespace {

// A field is its number and wire type, then its value.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(unsigned field, WireType type) {
  return varint((std::uint64_t{field} << 3) | static_cast<unsigned>(type));
}

}  // namespace

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
  return text;
}

std::string proto_integer(unsigned field, std::int64_t value) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}

std::string proto_double(unsigned field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}

std::string proto_float(unsigned field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

std::string proto_bytes(unsigned field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

}  // namespace tributary
