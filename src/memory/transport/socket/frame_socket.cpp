#include "memory/transport/socket/frame_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <utility>

#include "core/file/crc32c.h"
#include "memory/transport/socket/unix_socket.h"

namespace tributary::memory {
namespace {

constexpr std::size_t kSlice = std::size_t{256} << 10;  // bytes that one checksum call covers
constexpr std::size_t kMaxPieces = 64;                  // of one sendmsg
constexpr std::size_t kMaxUntaken = 4096;               // descriptors that wait to be taken
constexpr std::size_t kScratch = std::size_t{16} << 10;

/// The pieces of one sendmsg, with what was sent before left out.
class Pieces {
 public:
  explicit Pieces(std::size_t already_sent) : skip_(already_sent) {}

  void add(std::span<const std::byte> bytes) {
    const std::size_t skipped = std::min(skip_, bytes.size());
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    if (bytes.empty() || is_full()) return;
    all_[count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] bool is_full() const { return count_ == all_.size(); }
  [[nodiscard]] std::span<iovec> all() { return std::span(all_).first(count_); }

 private:
  std::array<iovec, kMaxPieces> all_{};
  std::size_t count_ = 0;
  std::size_t skip_;
};

}  // namespace

std::size_t OutgoingFrame::size() const {
  std::size_t bytes = frame.size();
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  return bytes;
}

void FrameSocket::queue(OutgoingFrame frame) {
  unsent_bytes_ += frame.frame.size();
  unsent_.push_back(std::move(frame));
}

ssize_t FrameSocket::send_some() {
  const OutgoingFrame& first = unsent_.front();
  if (first.descriptor >= 0 && front_sent_ == 0)
    return send_with_descriptor(socket_.get(), first.frame, first.descriptor);
  Pieces pieces(front_sent_);
  for (const OutgoingFrame& frame : unsent_) {
    if (pieces.is_full() || (frame.descriptor >= 0 && &frame != &first)) break;
    pieces.add(frame.frame);
    for (const std::span<const std::byte> part : frame.parts) pieces.add(part);
  }
  msghdr message = {};
  message.msg_iov = pieces.all().data();
  message.msg_iovlen = pieces.all().size();
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
}

void FrameSocket::count_sent(std::size_t bytes, std::vector<std::uint64_t>& ended_grants) {
  front_sent_ += bytes;
  while (!unsent_.empty() && front_sent_ >= unsent_.front().size()) {
    front_sent_ -= unsent_.front().size();
    unsent_bytes_ -= unsent_.front().frame.size();
    if (unsent_.front().grant != 0) ended_grants.push_back(unsent_.front().grant);
    unsent_.pop_front();
  }
}

bool FrameSocket::flush(std::vector<std::uint64_t>& ended_grants) {
  while (!unsent_.empty()) {
    const ssize_t count = send_some();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count < 0) {
      error_ = std::strerror(errno);
      has_failed_ = errno != EPIPE;  // which only says that the peer has closed
      return false;
    }
    count_sent(static_cast<std::size_t>(count), ended_grants);
  }
  return true;
}

void FrameSocket::drop_unsent(std::vector<std::uint64_t>& ended_grants) {
  for (const OutgoingFrame& frame : unsent_)
    if (frame.grant != 0) ended_grants.push_back(frame.grant);
  unsent_.clear();
  front_sent_ = unsent_bytes_ = 0;
}

/// As recv, but 0 when nothing has come and -1 when nothing can come any more.
ssize_t FrameSocket::read_some(std::span<std::byte> into) {
  ssize_t count = 0;
  do {
    if (takes_descriptors_) {
      Received received = receive_with_descriptor(socket_.get(), into);
      count = received.count;
      if (received.descriptor && came_beside_.size() < kMaxUntaken)
        came_beside_.push_back(std::move(received.descriptor));
    } else {
      count = recv(socket_.get(), into.data(), into.size(), 0);
    }
  } while (count < 0 && errno == EINTR);
  blocked_ = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (blocked_) return 0;
  is_at_end_ = count == 0 && !has_failed_;  // the system tells a failure once
  if (count <= 0) error_ = count == 0 ? "connection closed" : std::strerror(errno);
  return count > 0 ? count : -1;
}

void FrameSocket::expect_payload(std::span<std::byte> into, bool with_checksum) {
  payload_ = into;
  slice_begun_ = 0;
  payload_crc_ = 0;
  checks_payload_ = with_checksum;
  in_payload_ = true;
}

void FrameSocket::skip_payload(std::uint64_t bytes) {
  payload_ = {};
  payload_skipped_ = bytes;
  checks_payload_ = false;
  in_payload_ = true;
}

Descriptor FrameSocket::take_descriptor() {
  if (came_beside_.empty()) return {};
  Descriptor first = std::move(came_beside_.front());
  came_beside_.pop_front();
  return first;
}

void FrameSocket::abandon_payload() { skip_payload(payload_.size()); }

/// False when the connection is gone.
bool FrameSocket::receive_payload(std::size_t& budget) {
  std::array<std::byte, kScratch> scratch;
  std::span<std::byte> into = payload_.first(std::min(payload_.size(), kSlice - slice_begun_));
  if (payload_skipped_ > 0)
    into = std::span(scratch).first(std::min<std::uint64_t>(kScratch, payload_skipped_));
  into = into.first(std::min(into.size(), budget));
  const ssize_t count = read_some(into);
  if (count < 0) return false;
  const auto bytes = static_cast<std::size_t>(count);
  budget -= bytes;
  if (payload_skipped_ > 0) {
    payload_skipped_ -= bytes;
    return true;
  }
  payload_ = payload_.subspan(bytes);
  slice_begun_ += bytes;
  // A slice is checked while it is in the cache and the kernel takes in the next one.
  if (slice_begun_ == kSlice || payload_.empty()) {
    if (checks_payload_)
      payload_crc_ = crc32c({payload_.data() - slice_begun_, slice_begun_}, payload_crc_);
    slice_begun_ = 0;
  }
  return true;
}

FrameSocket::Event FrameSocket::receive_frame(Frame& frame, std::size_t& budget) {
  std::array<std::byte, kScratch> block;
  // Never more than the frame needs: what follows it may be payload, which goes elsewhere.
  const std::size_t wanted = std::min({parser_.wanted(), block.size(), budget});
  const ssize_t count = read_some(std::span(block).first(wanted));
  if (count < 0) return Event::kClosed;
  const auto bytes = static_cast<std::size_t>(count);
  budget -= bytes;
  if (bytes == 0) return Event::kNothing;
  Result<FrameParser::Fed> fed = parser_.feed(std::span(block).first(bytes));
  if (!fed) {
    refusal_ = fed.refusal();
    return Event::kMalformed;
  }
  if (!fed.value().frame) return Event::kNothing;
  frame = *std::move(fed).value().frame;
  return Event::kFrame;
}

FrameSocket::Event FrameSocket::receive(Frame& frame, std::size_t& budget) {
  blocked_ = false;
  while (budget > 0 && !blocked_) {
    if (in_payload_) {
      if (!receive_payload(budget)) return Event::kClosed;
      if (!payload_.empty() || payload_skipped_ > 0) continue;
      in_payload_ = false;
      return Event::kPayload;
    }
    const Event event = receive_frame(frame, budget);
    if (event != Event::kNothing) return event;
  }
  return Event::kNothing;
}

}  // namespace tributary::memory
