#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "memory/transport/transport.h"

namespace tributary::memory {

class InProcess;

/// The members of the pool that live in this process, by their process number.
using LocalMembers = std::map<std::uint16_t, InProcess*>;

/// Reads objects of members of the same process through their pointers, under a lease. What every
/// other engine does must look like this one.
///
/// All engines of one process are called from one thread. A GET is done by the reader's poll(), so
/// that the owner needs no turn.
class InProcess final : public Transport {
 public:
  static constexpr std::size_t kMaxEvents = 1024;  // waiting; control frames above it are refused

  /// owns: borrows `members`, and enters itself there until it ends; borrows `server`, which is
  ///       null where this member has no objects
  InProcess(const PeerIdentity& self, ObjectServer* server, LocalMembers& members);
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;
  ~InProcess() override;

  [[nodiscard]] const TransportTraits& traits() const override;
  /// errors: Refusal `key` when the row has no key of this engine, `peer_lost` when no such member
  ///         with the row's incarnation lives in this process
  Result<PeerLink> connect(const SegmentRow& row, TimePoint deadline) override;
  Result<TransferId> post_get(PeerLink link, const ObjectHandle& handle, std::span<std::byte> into,
                              TimePoint deadline) override;
  [[nodiscard]] Status post_control(PeerLink link, FrameType type,
                                    std::span<const std::byte> body) override;
  std::size_t poll(std::span<Completion> out, TimePoint now) override;
  [[nodiscard]] int wake_fd() const override { return -1; }
  void close(PeerLink link, CloseMode mode) override;

  /// The epoch of this member, as it travels in every frame.
  void set_epoch(std::uint32_t epoch) { self_.epoch = epoch; }

 private:
  struct Link {
    InProcess* peer = nullptr;
    PeerLink at_peer{};
    bool drains = false;
  };
  struct Get {
    TransferId id{};
    PeerLink link{};
    ObjectHandle handle;
    std::span<std::byte> into;
    TimePoint deadline = {};
  };

  PeerLink add_link(InProcess* peer);
  void finish(const Get& get, TimePoint now);
  [[nodiscard]] Status copy(const Get& get) const;
  /// Ends the link on both sides.
  void end(PeerLink link, Status status, const std::string& reason);
  void end_here(PeerLink link, Status status, const std::string& reason);

  PeerIdentity self_;
  ObjectServer* server_;
  LocalMembers& members_;
  std::uint64_t last_link_ = 0, last_transfer_ = 0;
  std::map<PeerLink, Link> links_;
  std::deque<Get> gets_;
  std::deque<Completion> events_;
};

/// The key of a row that members of the same process can read.
[[nodiscard]] TransportKey in_process_key();

}  // namespace tributary::memory
