#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tributary {

/// Continues a CRC32C (Castagnoli, reflected 0x82F63B78) over more bytes; start with 0.
///
/// cost:   three interleaved streams of the SSE4.2 instruction; a table where there is none
/// source: RFC 3720 appendix B.4 gives the test vectors
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/// As crc32c, but by table, on any processor.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes,
                                            std::uint32_t before = 0);

/// The CRC32C of `first` followed by `second`, from the two checksums and second's length.
[[nodiscard]] std::uint32_t combine_crc32c(std::uint32_t first, std::uint32_t second,
                                           std::uint64_t second_bytes);

/// Eight hexadecimal digits, lower case.
[[nodiscard]] std::string crc_text(std::uint32_t crc);

}  // namespace tributary
