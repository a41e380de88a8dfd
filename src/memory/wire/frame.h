#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "memory/bytes.h"

namespace tributary::memory {

inline constexpr std::uint32_t kFrameMagic = 0x42495254;  // "TRIB"
inline constexpr std::uint8_t kFrameVersion = 2;
inline constexpr std::size_t kMaxBodyBytes = std::size_t{64} << 10;

/// The messages; wire/messages.h says who sends what.
enum class FrameType : std::uint8_t {
  kHello = 1,
  kChallenge = 2,
  kConfirm = 3,
  kEpoch = 4,
  kAssign = 5,
  kPublish = 6,
  kRetract = 7,
  kPlan = 8,
  kGet = 9,
  kGetReply = 10,
  kLease = 11,
  kUnlease = 12,
  kCommit = 13,
  kCredit = 14,
  kHeartbeat = 15,
  kAck = 16,
  kFail = 17,
  kBye = 18,
  kResolve = 19,
  kJoin = 20,
  kWorker = 21,
  kPart = 22,
};
[[nodiscard]] std::string_view name_of(FrameType type);

/// Stands before every body. `epoch` is the sender's; `request` is 0 for one-way messages.
struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion, type = 0;
  std::uint16_t flags = 0;
  std::uint32_t epoch = 0, body_bytes = 0;
  std::uint64_t request = 0;
  std::uint32_t body_crc = 0, header_crc = 0;  // CRC32C of the body; of bytes 0 to 27

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};
static_assert(WireType<FrameHeader> && sizeof(FrameHeader) == 32);

struct Frame {
  FrameHeader header;
  std::vector<std::byte> body = {};

  [[nodiscard]] FrameType type() const { return static_cast<FrameType>(header.type); }
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// The header of a frame with this body.
///
/// errors: Fault::kBug when the body is above 64 KiB, or empty where the type needs one
[[nodiscard]] FrameHeader header_of(FrameType type, std::uint32_t epoch, std::uint64_t request,
                                    std::span<const std::byte> body);
/// Header and body as they travel. The payload of a GET_REPLY follows and is no part of it.
///
/// errors: as header_of()
[[nodiscard]] std::vector<std::byte> frame_bytes(FrameType type, std::uint32_t epoch,
                                                 std::uint64_t request,
                                                 std::span<const std::byte> body);

/// Checks magic, version, type, size and checksum of a header.
///
/// errors: Refusal with the field, its value and its limit; the connection must then be closed
[[nodiscard]] Result<FrameHeader> parse_header(std::span<const std::byte, 32> bytes);

/// Puts frames together from a stream that may be cut anywhere. Holds at most one frame.
class FrameParser {
 public:
  /// Takes bytes up to the end of one frame at most. What is not taken belongs to the next frame
  /// or, after a GET_REPLY, to its payload.
  ///
  /// errors: Refusal when the frame is malformed: the connection must be closed, and every later
  ///         call refuses too
  struct Fed {
    std::size_t taken = 0;
    std::optional<Frame> frame;
  };
  [[nodiscard]] Result<Fed> feed(std::span<const std::byte> bytes);
  /// How many bytes are missing until the header, or the frame, is whole.
  [[nodiscard]] std::size_t wanted() const;

 private:
  std::array<std::byte, 32> head_{};
  std::size_t head_bytes_ = 0;
  Frame frame_;
  std::optional<Refusal> refused_;
};

}  // namespace tributary::memory
