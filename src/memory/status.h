#pragma once

#include <cstdint>
#include <string_view>

#include "core/units.h"

namespace tributary::memory {

/// A moment on the steady clock, or on the clock of the simulator. Wall-clock time decides nothing.
using TimePoint = Nanoseconds;

/// How an operation of the pool ended; the values travel in GetReply.
enum class Status : std::uint32_t {
  kOk = 0,        // the bytes are there; verify their checksum
  kStale = 1,     // the handle is old: ask the controller for the current one and retry
  kBounds = 2,    // outside the object: a bug or an attack; the owner closes the connection
  kEpoch = 3,     // the request names an old epoch: wait for EPOCH, or stop when the own one is old
  kTimeout = 4,   // the deadline passed: suspect the peer, retry once
  kPeerLost = 5,  // the peer is gone: wait for re-assignment, or leave the step
  kBackend = 6,   // the transport failed: reconnect once, then take the next engine
  kBusy = 7,      // a limit was reached: wait 1 to 50 ms, keep the engine
  kCorrupt = 8,   // the checksum differs: read again once
};

[[nodiscard]] constexpr std::string_view name_of(Status status) {
  constexpr std::string_view kNames[] = {"ok",        "stale",   "bounds", "epoch",  "timeout",
                                         "peer lost", "backend", "busy",   "corrupt"};
  const auto value = static_cast<std::uint32_t>(status);
  return value <= 8 ? kNames[value] : "unknown";
}

}  // namespace tributary::memory
