#include "memory/progress/process_probes.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace tributary::memory {
namespace {

constexpr Nanoseconds kProbeTime{1'000'000'000}, kProbeWait{10'000'000};

}  // namespace

void ProcessProbes::start(const LinkBroken& link, const std::string& endpoint, TimePoint now) {
  const Result<Endpoint> parsed = parse_endpoint(endpoint);
  if (!parsed) return;
  probes_.push_back({.link = link,
                     .endpoint = parsed.value(),
                     .end = now + kProbeTime,
                     .next = now,
                     .wait = kProbeWait,
                     .socket = {}});
}

/// Connects, or looks at how far the connection is.
ProcessProbes::Answer ProcessProbes::ask(Probe& probe) {
  if (!probe.socket) {
    Result<Descriptor> socket = start_connecting(probe.endpoint);
    if (!socket) return socket.refusal().code == "nobody" ? Answer::kRefused : Answer::kNone;
    probe.socket = std::move(socket).value();
  }
  pollfd ready = {.fd = probe.socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) == 0) return Answer::kNone;
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(probe.socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  return failure == ECONNREFUSED ? Answer::kRefused : Answer::kAccepted;
}

void ProcessProbes::poll(TimePoint now, const std::function<void(const MemberLost&)>& tell) {
  std::vector<MemberLost> ended;
  std::erase_if(probes_, [&](Probe& probe) {
    if (now < probe.next) return false;
    switch (ask(probe)) {
      case Answer::kRefused:
        ended.push_back({probe.link.process, probe.link.incarnation});
        return true;
      case Answer::kAccepted:
        probe.socket = {};
        probe.next = std::min(now + std::exchange(probe.wait, probe.wait * 2), probe.end);
        break;
      case Answer::kNone:
        break;
    }
    return now >= probe.end;
  });
  for (const MemberLost& each : ended) tell(each);
}

}  // namespace tributary::memory
