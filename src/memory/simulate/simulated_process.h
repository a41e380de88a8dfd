#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "memory/protocol/controller_core.h"
#include "memory/protocol/owner_core.h"
#include "memory/protocol/reader_core.h"
#include "memory/wire/parts.h"

namespace tributary::memory {

/// A process of the simulated job: one of the three cores, and what lies around it.
struct SimulatedProcess {
  PeerIdentity identity;
  bool is_alive = false;
  std::uint64_t life = 0;     // grows with every start: what was set in motion before is void
  TimePoint stopped_until{};  // as by SIGSTOP
  std::deque<std::function<void()>> deferred;  // until it goes on

  std::unique_ptr<OwnerCore> owner;
  std::unique_ptr<ReaderCore> reader;
  std::unique_ptr<ControllerCore> controller;

  std::vector<std::byte> memory;                        // of an owner
  std::vector<std::atomic<std::uint64_t>> generations;  // of its pages
  std::set<SlotId> encoding;                            // by an owner
  std::map<std::uint64_t, SendObject> grants;           // being sent
  std::map<std::uint64_t, ObjectHandle> gets;           // of a reader, under way
  std::map<Key, std::vector<std::byte>> gathered;
  std::map<std::uint16_t, PartCollector> came_from;  // by peer

  [[nodiscard]] std::uint32_t epoch() const {
    if (owner) return owner->member().identity().epoch;
    return reader ? reader->member().identity().epoch : identity.epoch;
  }
  [[nodiscard]] std::vector<Action> step(const Event& event, TimePoint now) {
    if (owner) return owner->step(event, now);
    return reader ? reader->step(event, now) : controller->step(event, now);
  }
};

}  // namespace tributary::memory
