#include "memory/address/global_address.h"

#include <iomanip>
#include <sstream>

namespace tributary::memory {
namespace {

std::string hex(std::uint64_t bits) {
  std::ostringstream text;
  text << "0x" << std::hex << std::setw(16) << std::setfill('0') << bits;
  return std::move(text).str();
}

}  // namespace

Result<GlobalAddress> GlobalAddress::make(Tier tier, std::uint16_t process, std::uint64_t offset) {
  if (offset >= kSegmentBytes)
    return Refusal{"bounds", str("memory: offset ", offset, " is outside a segment of 2^44 bytes")};
  return GlobalAddress(std::uint64_t{1} << 62 |
                       std::uint64_t{static_cast<std::uint8_t>(tier)} << 60 |
                       std::uint64_t{process} << kOffsetBits | offset);
}

Result<GlobalAddress> GlobalAddress::from_bits(std::uint64_t bits) {
  if (!is_valid(bits))
    return Refusal{"bounds",
                   str("memory: ", hex(bits), " is no global address: bits 63 to 61 must be 010")};
  return GlobalAddress(bits);
}

Result<GlobalAddress> GlobalAddress::plus(std::uint64_t bytes) const {
  if (bytes >= kSegmentBytes - offset())
    return Refusal{"bounds", str("memory: ", *this, " + ", bytes, " leaves its segment")};
  return GlobalAddress(bits_ + bytes);
}

std::ostream& operator<<(std::ostream& out, GlobalAddress address) {
  return out << hex(address.bits());
}

}  // namespace tributary::memory
