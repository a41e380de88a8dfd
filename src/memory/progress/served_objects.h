#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "memory/progress/producer_memory.h"
#include "memory/protocol/owner_core.h"
#include "memory/transport/transport.h"

namespace tributary::memory {

/// Lets engines read what an owner has: each request is an event of its core. What the core asks
/// for beside the answer is kept for the progress thread, since engines call from within poll().
class ServedObjects final : public ObjectServer {
 public:
  /// owns: borrows both
  ServedObjects(OwnerCore& core, const ProducerMemory& memory) : core_(core), memory_(memory) {}

  [[nodiscard]] Grant grant(const PeerIdentity& peer, const GetRequest& request) override;
  void end_grant(std::uint64_t grant_id) override;
  [[nodiscard]] Status lease(const PeerIdentity& peer, std::uint64_t lease_id,
                             std::span<const LeaseEntry> entries) override;
  void unlease(const PeerIdentity& peer, std::uint64_t lease_id) override;

  /// What is left to do since the last call.
  [[nodiscard]] std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

 private:
  OwnerCore& core_;
  const ProducerMemory& memory_;
  std::vector<Action> actions_;
};

}  // namespace tributary::memory
