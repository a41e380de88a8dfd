#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/handle.h"
#include "memory/protocol/event.h"

namespace tributary::memory {

/// Finds out whether processes still run whose links the network broke: where a process listened,
/// its system refuses connections once it has ended. One that does not answer may run.
class ProcessProbes {
 public:
  /// Asks at the endpoint, which is the process's own.
  void start(const LinkBroken& link, const std::string& endpoint, TimePoint now);
  /// Tells each process that has ended, once.
  void poll(TimePoint now, const std::function<void(const MemberLost&)>& tell);

 private:
  struct Probe {
    Descriptor socket;
    LinkBroken link;
    TimePoint end;  // then nobody has answered
  };
  std::vector<Probe> probes_;
  std::vector<MemberLost> ended_;  // to be told
};

}  // namespace tributary::memory
