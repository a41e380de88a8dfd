#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"
#include "memory/address/page_table.h"
#include "memory/status.h"
#include "memory/wire/frame.h"
#include "memory/wire/structures.h"

namespace tributary::memory {

/// How far an engine reaches.
enum class Reach { kProcess, kHost, kNetwork };

/// What an engine can do, as facts.
struct TransportTraits {
  Engine engine{};
  std::string_view name;  // "in-process", "memfd", "tcp", ...
  Reach reach{};
  bool reads_dram = true, reads_hbm = false;
  bool needs_owner_progress = true;     // a GET waits for the owner's thread
  bool bounds_checked_by_owner = true;  // or by the reader, on memory mapped read-only
  bool cancellable = false;             // a posted GET can be called back before its completion
};

/// Who is at the other end of a link, after the handshake.
struct PeerIdentity {
  std::uint32_t rank = 0;
  Role role{};
  std::uint16_t process = 0;
  std::uint32_t incarnation = 0, epoch = 0;

  friend bool operator==(const PeerIdentity&, const PeerIdentity&) = default;
};

/// An open connection of one engine; numbers are not used again.
enum class PeerLink : std::uint64_t {};
/// A posted GET; numbers are not used again.
enum class TransferId : std::uint64_t {};

/// The bytes of a posted GET are in its buffer and have the handle's checksum, or `status` says why
/// not. Comes exactly once. The buffer may be used again after it.
struct TransferDone {
  TransferId transfer{};
  Status status{};
};
/// A control frame came in.
struct FrameReceived {
  PeerLink link{};
  Frame frame = {};
};
/// A peer connected by itself and passed the handshake.
struct LinkOpened {
  PeerLink link{};
  PeerIdentity peer = {};
  bool resumes = false;  // as the peer says: it was let in before, and that link broke
};
/// A link is gone; its transfers have ended with a TransferDone of their own before.
struct LinkClosed {
  PeerLink link{};
  Status status{};  // kOk after BYE
  std::string reason = {};
  bool is_broken = false;  // the network failed or damaged it, so that the peer may be well
};
using Completion = std::variant<TransferDone, FrameReceived, LinkOpened, LinkClosed>;

enum class CloseMode {
  kDrain,  // posted GETs end first
  kForce,  // posted GETs end now, and their buffers may be used again
};

/// Moves bytes of objects and control messages between processes. All calls come from one thread,
/// none blocks. A deadline that passes ends a GET with kTimeout, but only once nothing can write
/// into its buffer any more. The destructor waits for that too.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual const TransportTraits& traits() const = 0;
  /// Opens a link to the owner of a segment. The handshake may go on after the return; what is
  /// posted meanwhile waits for it.
  ///
  /// errors: Refusal when the row has no key of this engine or the peer cannot be reached
  virtual Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) = 0;
  /// Starts to read a whole object; `into` has handle.fields.bytes bytes and stays in place until
  /// the TransferDone.
  ///
  /// errors: Refusal when nothing was started: its code is `busy`, `peer_lost` or `backend`
  virtual Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle,
                                      std::span<std::byte> into, TimePoint deadline) = 0;
  /// Sends one message; kBusy when the queue of the link is full, kPeerLost when the link is
  /// closed.
  [[nodiscard]] virtual Status post_control(PeerLink link, FrameType type,
                                            std::span<const std::byte> body) = 0;
  /// Makes progress and reports what happened, at most out.size() events; returns how many.
  virtual std::size_t poll(std::span<Completion> out, TimePoint now) = 0;
  /// A descriptor that is readable when poll() has work; -1 when it must be polled.
  [[nodiscard]] virtual int wake_fd() const = 0;
  virtual void close(PeerLink link, CloseMode mode) = 0;
};

/// Checks the buffer of a GET, for engines.
///
/// errors: Fault::kBug when it has not the size of the object
void check_buffer(std::span<const std::byte> into, const ObjectHandle& handle);
/// Makes an engine's epoll readable when the descriptor is.
void watch(int epoll, int descriptor);
/// Moves the oldest events to `out`, as many as fit there; returns how many.
std::size_t hand_over(std::deque<Completion>& events, std::span<Completion> out);

/// What the owner lets an engine send for one GET. The parts stay in place until end_grant().
struct Grant {
  std::uint64_t id = 0;  // for end_grant(); 0 when nothing was granted
  Status status{};
  std::uint32_t crc32c = 0;
  std::vector<std::span<const std::byte>> parts = {};
};

/// The owner's side of an engine: the checks and leases behind a GET. Called on the progress
/// thread.
class ObjectServer {
 public:
  virtual ~ObjectServer() = default;

  /// Checks a request of an authenticated peer and takes a lease for the time of the reply.
  [[nodiscard]] virtual Grant grant(const PeerIdentity& peer, const GetRequest& request) = 0;
  /// The reply was sent or will never be: gives the lease back.
  virtual void end_grant(std::uint64_t grant_id) = 0;
  /// Takes a lease for a mapped reader; the same lease twice changes nothing.
  [[nodiscard]] virtual Status lease(const PeerIdentity& peer, std::uint64_t lease_id,
                                     std::span<const LeaseEntry> entries) = 0;
  virtual void unlease(const PeerIdentity& peer, std::uint64_t lease_id) = 0;
};

}  // namespace tributary::memory
