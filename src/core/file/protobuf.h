#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tributary {

// Fields of a message of Protocol Buffers, as bytes; those of a message follow one another. They
// are written by hand: a protobuf library beside libtorch's own clashes.
// source: Protocol Buffers, "Encoding"

[[nodiscard]] std::string proto_integer(unsigned field, std::int64_t value);
[[nodiscard]] std::string proto_double(unsigned field, double value);
[[nodiscard]] std::string proto_float(unsigned field, float value);
/// A text, bytes, or a message within the message.
[[nodiscard]] std::string proto_bytes(unsigned field, std::string_view bytes);

/// The lowest `bytes` bytes of a number, lowest first.
[[nodiscard]] std::string little_endian(std::uint64_t value, int bytes);

}  // namespace tributary
