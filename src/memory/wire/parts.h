#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/result.h"
#include "memory/wire/messages.h"

namespace tributary::memory {

// A PLAN or ASSIGN of a large step does not fit into a frame, and travels in parts. They may be
// lost, repeated and reordered as any message: the sender sends all of them again until the whole
// is acknowledged, and what has come before counts.

/// What one frame holds.
struct FrameContent {
  FrameType type{};
  std::vector<std::byte> body = {};
};

/// A message as it travels: in one frame, or in parts that fill frames.
///
/// units:  `max_bytes` of the body of a frame, above kPartHead
/// errors: Fault::kBug when it takes more than kMaxParts
[[nodiscard]] std::vector<FrameContent> frames_of(const Message& message,
                                                  std::size_t max_bytes = kMaxBodyBytes);
inline constexpr std::size_t kPartHead = 52;  // bytes of a PART beside its content
/// The largest body that travels.
inline constexpr std::size_t kMaxMessageBytes = kMaxParts * (kMaxBodyBytes - kPartHead);

/// Reads the messages that come in the frames of one peer, and joins parts. Holds at most
/// kMaxMessageBytes in kMaxMessages, and lets those go to which nothing has come for longest: they
/// are sent again.
class PartCollector {
 public:
  static constexpr std::size_t kMaxMessages = 64;

  /// Takes a frame; none while parts of its message are missing.
  ///
  /// errors: Refusal when the message is malformed, or its parts contradict each other or their
  ///         digest; the connection must then be closed
  [[nodiscard]] Result<std::optional<Message>> take(FrameType type,
                                                    std::span<const std::byte> body);

  /// What is held of unfinished messages.
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::size_t held_messages() const { return unfinished_.size(); }

 private:
  using Whole = std::pair<FrameType, Digest>;
  struct Unfinished {
    std::uint32_t parts = 0;
    std::uint64_t touched = 0;  // grows with every part
    std::map<std::uint32_t, std::vector<std::byte>> pieces = {};
  };
  [[nodiscard]] Result<std::optional<Message>> take_part(PartMessage part);
  [[nodiscard]] Result<std::optional<Message>> join(const Whole& whole);
  void forget(const Whole& whole);
  void make_room();

  std::map<Whole, Unfinished> unfinished_;
  std::size_t held_bytes_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace tributary::memory
