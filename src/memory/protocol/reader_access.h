#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "memory/protocol/event.h"

namespace tributary::memory {

/// What an owner lets one reader have under way at a time.
struct ReadLimits {
  std::uint64_t request_bytes = kMaxPayloadBytes;
  std::uint64_t peer_bytes = std::uint64_t{256} << 20;
  std::uint32_t peer_requests = 1024;
};

/// The owner's side of reading: checks every request, and keeps an object leased while it is read.
class ReaderAccess {
 public:
  /// owns: borrows `objects`
  ReaderAccess(ObjectTable& objects, const ReadLimits& limits)
      : objects_(objects), limits_(limits) {}

  /// Checks a GET of an authenticated peer and leases the object until end(). The checksum in the
  /// reply is that of the whole object; of a part the engine computes it.
  [[nodiscard]] SendObject answer(const PeerIdentity& peer, const GetRequest& request,
                                  TimePoint now);
  /// The bytes of a grant were sent, or never will be; twice changes nothing.
  void end(std::uint64_t grant);

  /// Leases all entries for a mapped reader, or none. A lease that has ended is not given again, so
  /// that a late copy of its message leaves nothing behind.
  [[nodiscard]] Status lease(const PeerIdentity& peer, const LeaseMessage& message, TimePoint now);
  void unlease(const PeerIdentity& peer, std::uint64_t lease_id);
  /// The process has a new epoch, or said BYE: what it held under earlier ones is dropped.
  void drop(std::uint16_t process, std::uint32_t before_epoch);

  [[nodiscard]] std::size_t grants() const { return grants_.size(); }

 private:
  [[nodiscard]] Status check(const PeerIdentity& peer, const GetRequest& request) const;

  struct Grant {
    LeaseHolder holder;
    std::uint64_t bytes = 0;
  };
  struct Load {
    std::uint64_t bytes = 0;
    std::uint32_t requests = 0;
  };
  /// Leases that a reader has ended: every one below `floor`, and these.
  struct EndedLeases {
    std::uint64_t floor = 0;
    std::set<std::uint64_t> ids;
  };
  using Reader = std::pair<std::uint16_t, std::uint32_t>;  // process, epoch

  ObjectTable& objects_;
  ReadLimits limits_;
  std::uint64_t next_grant_ = 1;
  std::map<std::uint64_t, Grant> grants_;
  std::map<std::uint16_t, Load> loads_;
  std::map<Reader, EndedLeases> ended_;
};

}  // namespace tributary::memory
