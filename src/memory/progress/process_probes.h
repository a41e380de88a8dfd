#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/handle.h"
#include "memory/protocol/event.h"
#include "memory/transport/socket/tcp_socket.h"

namespace tributary::memory {

/// Finds out whether processes still run whose links the network broke: where a process listened,
/// its system refuses connections once it has ended. While it ends they may still be accepted, so
/// each is asked several times within a second. One that is not refused by then may run.
class ProcessProbes {
 public:
  /// Asks at the endpoint, which is the process's own.
  void start(const LinkBroken& link, const std::string& endpoint, TimePoint now);
  /// Tells each process that has ended, once.
  void poll(TimePoint now, const std::function<void(const MemberLost&)>& tell);

 private:
  struct Probe {
    LinkBroken link;
    Endpoint endpoint;
    TimePoint end, next;  // of asking, and of the next time
    Nanoseconds wait;
    Descriptor socket;  // while it connects
  };
  enum class Answer { kNone, kNotRefused, kRefused };

  [[nodiscard]] static Answer ask(Probe& probe);

  std::vector<Probe> probes_;
};

}  // namespace tributary::memory
