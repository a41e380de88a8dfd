#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/handle.h"
#include "memory/wire/frame.h"

namespace tributary::memory {

/// A frame to send, with what travels beside it.
struct OutgoingFrame {
  std::vector<std::byte> frame;
  std::vector<std::span<const std::byte>> parts = {};  // a payload; stays in place until it is sent
  std::uint64_t grant = 0;                             // what lets the parts be read; 0: none
  int descriptor = -1;                                 // only over a unix socket

  [[nodiscard]] std::size_t size() const;
};

/// A stream socket that carries frames and payloads both ways and never blocks. Payload goes
/// straight from and to the memory of objects.
class FrameSocket {
 public:
  explicit FrameSocket(Descriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  void close() { socket_.reset(); }

  void queue(OutgoingFrame frame);
  /// Sends what the socket takes now; appends the grants of frames that have left. False on an
  /// error, for which see error().
  [[nodiscard]] bool flush(std::vector<std::uint64_t>& ended_grants);
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  [[nodiscard]] std::size_t unsent_frames() const { return unsent_.size(); }
  /// What those frames take, without the payloads beside them. units: bytes
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_bytes_; }
  /// Gives the grants of frames that will never leave.
  void drop_unsent(std::vector<std::uint64_t>& ended_grants);

  enum class Event {
    kNothing,    // nothing more has come, or the budget is used up
    kFrame,      // `frame` is whole
    kPayload,    // the expected payload is whole
    kClosed,     // the peer has closed, or the connection broke: error()
    kMalformed,  // refusal() says what came; the socket must be closed
  };
  /// Reads on, up to the next event and at most `budget` bytes, which it counts down.
  [[nodiscard]] Event receive(Frame& frame, std::size_t& budget);
  /// Puts the next bytes into `into` and keeps the checksum of them, if asked to.
  void expect_payload(std::span<std::byte> into, bool with_checksum);
  /// Lets the next bytes go: nobody waits for them any more.
  void skip_payload(std::uint64_t bytes);
  /// Lets the rest of a payload go that has begun. Its memory is not written any more.
  void abandon_payload();
  [[nodiscard]] std::uint32_t payload_checksum() const { return payload_crc_; }

  /// Takes descriptors that come beside frames, from now on. Others are closed by the system.
  void accept_descriptors() { takes_descriptors_ = true; }
  /// The one that came first and was not taken yet; owns nothing when there is none.
  [[nodiscard]] Descriptor take_descriptor();

  [[nodiscard]] const std::string& error() const { return error_; }
  /// After kClosed: the other process has closed its end, and the network did not fail.
  [[nodiscard]] bool is_at_end() const { return is_at_end_; }
  [[nodiscard]] const Refusal& refusal() const { return refusal_; }

 private:
  [[nodiscard]] ssize_t send_some();
  void count_sent(std::size_t bytes, std::vector<std::uint64_t>& ended_grants);
  [[nodiscard]] ssize_t read_some(std::span<std::byte> into);
  [[nodiscard]] bool receive_payload(std::size_t& budget);
  [[nodiscard]] Event receive_frame(Frame& frame, std::size_t& budget);

  Descriptor socket_;
  std::deque<OutgoingFrame> unsent_;
  std::size_t unsent_bytes_ = 0;
  std::size_t front_sent_ = 0;  // bytes of the first unsent frame

  FrameParser parser_;
  std::span<std::byte> payload_;       // where the rest goes
  std::size_t slice_begun_ = 0;        // bytes before payload_ that the checksum does not cover yet
  std::uint64_t payload_skipped_ = 0;  // bytes that still go nowhere
  bool in_payload_ = false, checks_payload_ = false;
  std::uint32_t payload_crc_ = 0;
  bool takes_descriptors_ = false, blocked_ = false;
  bool has_failed_ = false, is_at_end_ = false;
  std::deque<Descriptor> came_beside_;
  std::string error_;
  Refusal refusal_;
};

}  // namespace tributary::memory
