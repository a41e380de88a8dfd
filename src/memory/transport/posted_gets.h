#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "memory/transport/socket/frame_socket.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

/// A GET under way.
struct PostedGet {
  std::span<std::byte> into;
  std::optional<std::uint32_t> crc32c;  // of the object; none when its handle carries none
  TimePoint deadline = {};
};

/// The GETs of one connection, from the reader's side. Each ends once, with a TransferDone, and
/// from then on nothing is written into its memory: bytes of a late reply are let go.
class PostedGets {
 public:
  explicit PostedGets(std::vector<TransferDone>& done) : done_(&done) {}

  void add(TransferId transfer, const PostedGet& get);
  [[nodiscard]] bool empty() const { return gets_.empty(); }

  /// Takes a GET_REPLY and lets its payload go where it belongs. A refusal (`reply`): the stream
  /// cannot be read on.
  [[nodiscard]] std::optional<Refusal> take_reply(const Frame& frame, FrameSocket& from);
  /// Takes the end of that payload. A refusal (`crc`): the bytes are not those of the object.
  [[nodiscard]] std::optional<Refusal> take_payload_end(const FrameSocket& from);
  /// Ends those whose deadline has passed.
  void expire(TimePoint now, FrameSocket& from);
  /// Ends all.
  void end_all(Status status);

 private:
  using Gets = std::map<TransferId, std::optional<PostedGet>>;  // empty: it has expired
  void finish(Gets::iterator get, Status status);

  Gets gets_;
  std::optional<TransferId> receiving_;  // whose payload comes now
  std::uint32_t announced_crc_ = 0;
  std::vector<TransferDone>* done_;
};

}  // namespace tributary::memory
